"""The table of a session: per arm and phase and in total, each figure with its ratio to the baseline and interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tabulate import tabulate

from kit.analysis.analyse import Analysis
from kit.analysis.columns import Key, Runs
from kit.analysis.compare import Comparison
from kit.model.metric import METRICS, Metric
from kit.model.sample import TOTAL
from kit.model.session import Session
from kit.report import course, units
from kit.report.calls import largest_group, whole_runs
from kit.report.figures import figures
from kit.report.interval import difference_interval, ratio_interval
from kit.report.ladder import ladders
from kit.report.notes import copied, leaves_tree, notes
from kit.report.ranking import advice, caption, table
from kit.report.tasks import task_tables
from kit.report.verdict import assurance, verdicts
from kit.report.wrap import wrap

Index = dict[tuple[str, str, str, str], Comparison]  # by arm, point, phase, metric

_COLUMNS = tuple(metric for metric in METRICS.values() if metric.column)


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
    parts = [_head(session, analysis, style)]
    index = {(item.arm, item.point, item.phase, item.metric): item for item in analysis.comparisons}
    for point in runs.points:
        keys = [(arm, point) for arm in session.arms if runs.has((arm, point))]
        phases = _total_first(runs.phases(keys))
        # A sweep has a table for each point; the phases of all of them would bury what it is about.
        for phase in phases[:1] if len(runs.points) > 1 else phases:
            parts.append(_phase_table(session, runs, keys, index, phase, style))
        for phase in phases:
            parts.append(figures(runs, keys, index, phase, style.format))
    parts += ladders(analysis, style.newline, style.format)
    parts += [item.text(style.format) for item in task_tables(analysis, style.newline)]
    parts += [verdicts(analysis, style.format), assurance(analysis)]
    parts += [_failures(session), _not_run(session), _notes(session, analysis), _facts(session)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(session: Session, analysis: Analysis, style: _Style) -> str:
    lines = [course.head(session)]
    if session.guest:
        lines.append(f"{style.newline.strip()}IN A GUEST: {session.guest}")
    for ranking in analysis.rankings:
        shown = table(ranking, analysis.comparisons, None, style.format)
        lines += ["", *advice(ranking, copied(session)), "", style.heading(caption(ranking)), shown]
    return "\n".join(lines)


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
    headers = ["arm", *(f"{item.column}*" if grouped and item.whole_group else item.column for item in _COLUMNS)]
    count = len(runs.phases(keys)) - 1
    title = f"total of {count} phases" if phase == TOTAL else f"phase {phase}"
    title += units.at(keys[0][1])
    return f"{style.heading(title)}\n{tabulate(rows, headers, tablefmt=style.format, disable_numparse=True)}"


def _cell(runs: Runs, key: Key, index: Index, phase: str, column: Metric, grouped: bool, style: _Style) -> str:
    """The mean over the rounds, and below it the ratio to the baseline with its interval."""
    name = (grouped and column.whole_group) or column.name
    values = runs.values(key, phase, name)
    known = values[np.isfinite(values)]
    text = units.amount(float(known.mean()) if known.size else None, column.unit)
    comparison = index.get((*key, phase, name))
    if comparison is None:
        return text
    if comparison.adjusted is not None:  # a row must not contradict itself
        text = f"{units.amount(comparison.adjusted, column.unit)}°"
    # Next to nothing on most baselines: 90 times that says less than seconds do.
    against = difference_interval(comparison) if column.as_difference else ratio_interval(comparison)
    return f"{text}{style.newline}{against}"


def _failures(session: Session) -> str:
    found = course.failed(session)
    return "\n".join(f"failed: {where}: {sample.error}\n  full log: {sample.log}" for where, sample in found)


def _not_run(session: Session) -> str:
    return "\n".join(f"not run: {item.arm}: {item.reason}\n  fix: {item.fix}" for item in course.not_run(session))


def _notes(session: Session, analysis: Analysis) -> str:
    calls = (said for item in whole_runs(analysis) if (said := largest_group(item)))
    return "\n".join(wrap(f"note: {note}") for note in [*notes(session, analysis), *calls])


def _facts(session: Session) -> str:
    if not session.facts:
        return ""
    return "\n".join(f"{key}: {value}" for key, value in session.facts.items())
