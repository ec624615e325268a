"""The table of a session: per arm and phase and in total, each figure with its ratio to the baseline and interval."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tabulate import tabulate

from kit.analysis import Analysis
from kit.arm import parse_arm
from kit.compare import Comparison
from kit.record import Session
from kit.report import units
from kit.report.ladder import ladders
from kit.report.verdict import assurance, verdicts
from kit.runs import Key, Runs
from kit.sample import TOTAL, Sample

Index = dict[tuple[str, str, str, str], Comparison]  # by arm, point, phase, metric

_COLUMNS = ("real", "user", "sys", "elsewhere", "flush")
#: The cgroup's figure replaces the tree's where they differ by more than both of these.
_RELATIVE, _ABSOLUTE = 0.02, 0.02


@dataclass(frozen=True)
class _Style:
    format: str
    newline: str

    def heading(self, text: str) -> str:
        return f"### {text}\n" if self.format == "github" else text


_TEXT = _Style("simple", "\n")
_MARKDOWN = _Style("github", "<br>")


def render_text(session: Session, analysis: Analysis) -> str:
    return _render(session, analysis, _TEXT)


def render_markdown(session: Session, analysis: Analysis) -> str:
    return _render(session, analysis, _MARKDOWN)


def _render(session: Session, analysis: Analysis, style: _Style) -> str:
    runs = analysis.runs
    parts = [_head(session)]
    index = {(item.arm, item.point, item.phase, item.metric): item for item in analysis.comparisons}
    for point in runs.points:
        keys = [(arm, point) for arm in session.arms if runs.has((arm, point))]
        phases = _total_first(runs.phases(keys))
        # A sweep has a table for each point; the phases of all of them would bury what it is about.
        for phase in phases[:1] if len(runs.points) > 1 else phases:
            parts.append(_phase_table(session, runs, keys, index, phase, style))
    parts += ladders(analysis, style.newline, style.format)
    parts += [verdicts(analysis, style.format), assurance(analysis)]
    parts += [_failures(session.samples), _not_run(session), _notes(session, analysis), _facts(session)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(session: Session) -> str:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(session.created))
    blocks = {item.block for item in session.samples if item.kind != "warmup" and item.repeats is None}
    rounds = f"{len(blocks)} round{'s' if len(blocks) != 1 else ''}"
    state = "" if session.status == "done" else f", {session.status}"
    return f"{session.title}: session {session.id}, {when}, {rounds}{state}"


def _total_first(phases: Sequence[str]) -> list[str]:
    return [TOTAL, *(name for name in phases if name != TOTAL)] if TOTAL in phases else list(phases)


def _phase_table(
    session: Session,
    runs: Runs,
    keys: Sequence[Key],
    index: Index,
    phase: str,
    style: _Style,
) -> str:
    baselines = dict(session.baselines)
    grouped = leaves_tree(runs, keys, phase)
    rows = []
    for key in keys:
        name = key[0] if key[0] not in baselines else f"{key[0]}{style.newline}  / {baselines[key[0]]}"
        rows.append([name, *(_cell(runs, key, index, phase, metric, grouped, style) for metric in _COLUMNS)])
    star = "*" if grouped else ""
    headers = ["arm", "real", f"user{star}", f"sys{star}", "elsewhere", "flush"]
    count = len(runs.phases(keys)) - 1
    title = f"total of {count} phases" if phase == TOTAL else f"phase {phase}"
    title += f" at {keys[0][1]}" if keys[0][1] else ""
    return f"{style.heading(title)}\n{tabulate(rows, headers, tablefmt=style.format, disable_numparse=True)}"


def _cell(runs: Runs, key: Key, index: Index, phase: str, metric: str, grouped: bool, style: _Style) -> str:
    """The mean over the rounds, and below it the ratio to the baseline with its interval."""
    if grouped and metric in ("user", "sys"):
        metric = f"cgroup_{metric}"
    values = runs.values(key, phase, metric)
    known = values[np.isfinite(values)]
    text = units.seconds(float(known.mean())) if known.size else units.NOTHING
    comparison = index.get((*key, phase, metric))
    return text if comparison is None else f"{text}{style.newline}{units.ratio(comparison)}"


def leaves_tree(runs: Runs, keys: Sequence[Key], phase: str) -> bool:
    """True where the cgroup counted CPU that the waited-for tree did not: a daemon left it."""
    for key in keys:
        tree = runs.values(key, phase, "user") + runs.values(key, phase, "sys")
        group = runs.values(key, phase, "cgroup_user") + runs.values(key, phase, "cgroup_sys")
        # Not a number where either is not measured, and then not greater either.
        if (np.abs(group - tree) > np.maximum(_ABSOLUTE, _RELATIVE * group)).any():
            return True
    return False


def _failures(kept: Sequence[Sample]) -> str:
    lines = []
    for sample in kept:
        if sample.status != "ok":
            where = f"round {sample.block}" if sample.block else "warm-up"
            lines.append(f"failed: {sample.arm}, {where}: {sample.error}\n  full log: {sample.log}")
    return "\n".join(lines)


def _not_run(session: Session) -> str:
    return "\n".join(f"not run: {item.arm}: {item.reason}\n  fix: {item.fix}" for item in session.not_run)


def _notes(session: Session, analysis: Analysis) -> str:
    """What a reader must know to read the table rightly."""
    runs, kept = analysis.runs, [item for item in session.samples if item.kind != "warmup"]
    notes = list(analysis.unlike)
    if any(item.ratio is not None and item.low is not None for item in analysis.comparisons):
        notes.append(_intervals(analysis))
    if any(leaves_tree(runs, [(arm, point)], phase) for arm, point, phase in _everything(session, runs)):
        notes.append(
            "* CPU of the arm's cgroup: processes left the tree that `time` sees, or used CPU it does not count"
        )
    if any(sample.kind == "imported" for sample in kept):
        notes.append("imported figures: nothing is known of the machine, the image or the order of the runs")
    if any(arm.startswith("host") for arm in session.arms):
        notes.append("host: the host's own toolchain, not the image's; a difference may be the compiler's")
        compilers = {key: value for key, value in session.facts.items() if key.startswith("compiler")}
        if len(set(compilers.values())) > 1:
            notes.append("; ".join(f"{key}: {value}" for key, value in compilers.items()) + ": they DIFFER")
    for arm, baseline in session.baselines:
        if session.request.baseline and parse_arm(arm).filesystem != parse_arm(baseline).filesystem:
            notes.append(f"{arm} and its baseline {baseline} lie on different filesystems: you named the baseline")
    copied = [arm for arm in session.arms if ":vfs" in arm and any(sample.arm == arm for sample in kept)]
    if copied and session.facts.get("caches") == "warm":
        notes.append(
            f"{', '.join(copied)}: vfs copies the root filesystem for every container, so its files are in the page "
            "cache as just written, the other arms' as read; a warm figure below bare shows that, not the driver: "
            "use --cache cold"
        )
    if len({sample.block for sample in kept}) == 1:
        notes.append("1 run: no interval")
    return "\n".join(textwrap.fill(f"note: {note}", 118, subsequent_indent="  ") for note in notes)


def _everything(session: Session, runs: Runs) -> Iterator[tuple[str, str, str]]:
    for point in runs.points:
        for arm in session.arms:
            if runs.has((arm, point)):
                yield from ((arm, point, phase) for phase in runs.phases([(arm, point)]))


def _intervals(analysis: Analysis) -> str:
    family = max(item.family for item in analysis.comparisons)
    text = "intervals in the tables hold one at a time with 95 %"
    if family > 1:
        text += f"; verdicts allow for all {family} comparisons at once (Bonferroni)"
    return text


def _facts(session: Session) -> str:
    if not session.facts:
        return ""
    return "\n".join(f"{key}: {value}" for key, value in session.facts.items())
