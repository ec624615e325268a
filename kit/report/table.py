"""The table of a session: per arm and phase and in total, each figure with its ratio to the baseline and interval."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from kit.arm import parse_arm
from kit.compare import Comparison, not_comparable
from kit.record import Session
from kit.report import units
from kit.sample import TOTAL, Phase, Sample

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


def render_text(session: Session, comparisons: Sequence[Comparison]) -> str:
    return _render(session, comparisons, _TEXT)


def render_markdown(session: Session, comparisons: Sequence[Comparison]) -> str:
    return _render(session, comparisons, _MARKDOWN)


def _render(session: Session, comparisons: Sequence[Comparison], style: _Style) -> str:
    kept = [sample for sample in session.samples if sample.kind != "warmup"]
    phases = _phase_names(kept)
    parts = [_head(session, kept)]
    index = {(item.arm, item.phase, item.metric): item for item in comparisons}
    for phase in phases:
        parts.append(_phase_table(session, kept, index, phase, len(phases), style))
    parts += [
        _verdicts(session, comparisons, phases),
        _failures(session.samples),
        _not_run(session),
        _notes(session, kept),
    ]
    parts.append(_facts(session))
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(session: Session, kept: Sequence[Sample]) -> str:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(session.created))
    blocks = {sample.block for sample in kept}
    rounds = f"{len(blocks)} round{'s' if len(blocks) != 1 else ''}"
    state = "" if session.status == "done" else f", {session.status}"
    return f"{session.title}: session {session.id}, {when}, {rounds}{state}"


def _phase_names(kept: Iterable[Sample]) -> list[str]:
    names: dict[str, None] = {}
    for sample in kept:
        names.update((phase.name, None) for phase in sample.with_total())
    return ([TOTAL] if TOTAL in names else []) + [name for name in names if name != TOTAL]


def _phase_table(
    session: Session,
    kept: Sequence[Sample],
    index: dict[tuple[str, str, str], Comparison],
    phase: str,
    count: int,
    style: _Style,
) -> str:
    baselines = dict(session.baselines)
    found = {arm: _phases_of(arm, kept, phase) for arm in session.arms}
    grouped = leaves_tree(item for phases in found.values() for item in phases)
    rows = []
    for arm in session.arms:
        if not found[arm]:
            continue
        name = arm if arm not in baselines else f"{arm}{style.newline}  / {baselines[arm]}"
        cells = [_cell(arm, found[arm], index, phase, metric, grouped, style) for metric in _COLUMNS]
        rows.append([name, *cells])
    if not rows:
        return ""
    star = "*" if grouped else ""
    headers = ["arm", "real", f"user{star}", f"sys{star}", "elsewhere", "flush"]
    title = f"total of {count - 1} phases" if phase == TOTAL else f"phase {phase}"
    return f"{style.heading(title)}\n{tabulate(rows, headers, tablefmt=style.format, disable_numparse=True)}"


def _phases_of(arm: str, kept: Sequence[Sample], phase: str) -> list[Phase]:
    mine = [sample for sample in kept if sample.arm == arm and sample.status == "ok"]
    return [item for sample in mine for item in sample.with_total() if item.name == phase]


def _cell(
    arm: str,
    phases: Sequence[Phase],
    index: dict[tuple[str, str, str], Comparison],
    phase: str,
    metric: str,
    grouped: bool,
    style: _Style,
) -> str:
    """The mean over the rounds, and below it the ratio to the baseline with its interval."""
    if grouped and metric in ("user", "sys"):
        metric = f"cgroup_{metric}"
    values = [value for item in phases if (value := item.metric(metric)) is not None]
    text = units.seconds(sum(values) / len(values)) if values else units.NOTHING
    comparison = index.get((arm, phase, metric))
    return text if comparison is None else f"{text}{style.newline}{units.ratio(comparison)}"


def leaves_tree(phases: Iterable[Phase]) -> bool:
    """True where the cgroup counted CPU that the waited-for tree did not: a daemon left it."""
    for item in phases:
        if None in (item.user, item.sys, item.cgroup_user, item.cgroup_sys):
            continue
        tree = (item.user or 0) + (item.sys or 0)
        group = (item.cgroup_user or 0) + (item.cgroup_sys or 0)
        if abs(group - tree) > max(_ABSOLUTE, _RELATIVE * group):
            return True
    return False


def _verdicts(session: Session, comparisons: Sequence[Comparison], phases: Sequence[str]) -> str:
    """In sentences, for real time in total: what was found, or what would have been."""
    lines = []
    for item in comparisons:
        if item.metric == "real" and phases and item.phase == phases[0]:
            lines.append(f"  {item.arm} against {item.baseline}: {verdict(item)}")
    return "\n".join(["real time, 95 % intervals:", *lines]) if lines else ""


def verdict(item: Comparison) -> str:
    if item.ratio is None or item.low is None or item.high is None:
        value = f"ratio {item.ratio:.3f}" if item.ratio is not None else "no ratio"
        return f"{value}, {item.n} run: no interval" if item.n == 1 else f"{value}, no interval"
    interval = f"({units.percent(item.low)} to {units.percent(item.high)})"
    if item.verdict == "not detected":
        floor = (
            f"would have seen ≥ {units.percent(item.detectable).lstrip('+')}" if item.detectable else "no floor known"
        )
        return f"no difference detected {interval}; {floor}"
    word = "slower" if item.verdict == "more" else "faster"
    return f"{units.percent(item.ratio)} {interval}: {word}"


def _failures(kept: Sequence[Sample]) -> str:
    lines = []
    for sample in kept:
        if sample.status != "ok":
            where = f"round {sample.block}" if sample.block else "warm-up"
            lines.append(f"failed: {sample.arm}, {where}: {sample.error}\n  full log: {sample.log}")
    return "\n".join(lines)


def _not_run(session: Session) -> str:
    return "\n".join(f"not run: {item.arm}: {item.reason}\n  fix: {item.fix}" for item in session.not_run)


def _notes(session: Session, kept: Sequence[Sample]) -> str:
    """What a reader must know to read the table rightly."""
    notes = list(not_comparable(kept, session.baselines))
    phases = [phase for sample in kept for phase in sample.phases]
    if leaves_tree(phases):
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


def _facts(session: Session) -> str:
    if not session.facts:
        return ""
    return "\n".join(f"{key}: {value}" for key, value in session.facts.items())
