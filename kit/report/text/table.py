"""The table of a session: per arm and phase and in total, each figure with its ratio to the baseline and interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.runs.arm_runs import ArmRuns, PointRuns
from kit.analysis.runs.compare import Comparison
from kit.analysis.session.analyse import Analysis
from kit.model.metric import METRICS, Metric
from kit.model.sample import TOTAL
from kit.model.session import Session
from kit.report.format import units
from kit.report.format.interval import difference_interval, ratio_interval
from kit.report.format.table import GITHUB, render_table
from kit.report.format.verdict import assurance, verdicts
from kit.report.format.wrap import wrap
from kit.report.text import summary
from kit.report.text.advice import advice
from kit.report.text.calls import largest_group, whole_runs
from kit.report.text.caveats import copied, notes
from kit.report.text.figures import figures
from kit.report.text.ladder import ladders
from kit.report.text.ranking import caption, group_notes, table
from kit.report.text.tasks import task_tables

Index = dict[tuple[str, str, str, str], Comparison]  # by arm, point, phase, metric

_COLUMNS = tuple(metric for metric in METRICS.values() if metric.column)


@dataclass(frozen=True)
class _Style:
    format: str
    newline: str

    def heading(self, text: str) -> str:
        return f"### {text}\n" if self.format == GITHUB else text


_TEXT = _Style("simple", "\n")
_MARKDOWN = _Style(GITHUB, "<br>")


def render_text(session: Session, analysis: Analysis) -> str:
    return _render(session, analysis, _TEXT)


def render_markdown(session: Session, analysis: Analysis) -> str:
    return _render(session, analysis, _MARKDOWN)


def _render(session: Session, analysis: Analysis, style: _Style) -> str:
    parts = [_head(session, analysis, style)]
    index = {
        (comparison.arm, comparison.point, comparison.phase, comparison.metric): comparison
        for comparison in analysis.comparisons
    }
    for point in analysis.points:
        phases = _total_first(point.phases)
        # A sweep has a table for each point; phases of all points would take too much space.
        for phase in phases[:1] if len(analysis.points) > 1 else phases:
            parts.append(_phase_table(session, point, index, phase, style))
        for phase in phases:
            parts.append(figures(point, index, phase, style.format))
    parts += ladders(analysis, style.newline, style.format)
    parts += [task_table.text(style.format) for task_table in task_tables(analysis, style.newline)]
    parts += [verdicts(analysis, style.format), assurance(analysis)]
    parts += [_failures(session), _not_run(session), _notes(session, analysis), _facts(session)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(session: Session, analysis: Analysis, style: _Style) -> str:
    lines = [summary.head(session)]
    if session.guest:
        lines.append(f"{style.newline.strip()}IN A GUEST: {session.guest}")
    for ranking in analysis.rankings:
        text = table(ranking, None, style.format)
        lines += ["", *advice(ranking, copied(session)), "", style.heading(caption(ranking)), text]
    return "\n".join(lines)


def _total_first(phases: Sequence[str]) -> list[str]:
    return [TOTAL, *(name for name in phases if name != TOTAL)] if TOTAL in phases else list(phases)


def _phase_table(session: Session, point: PointRuns, index: Index, phase: str, style: _Style) -> str:
    baselines = dict(session.baselines)
    grouped = point.leaves_tree(phase)
    rows = []
    for runs in point.arms:
        name = runs.arm if runs.arm not in baselines else f"{runs.arm}{style.newline}  / {baselines[runs.arm]}"
        rows.append([name, *(_cell(runs, index, phase, metric, grouped, style) for metric in _COLUMNS)])
    headers = [
        "arm",
        *(f"{metric.column}*" if grouped and metric.whole_group else metric.column for metric in _COLUMNS),
    ]
    count = len(point.phases) - 1
    title = f"total of {count} phases" if phase == TOTAL else f"phase {phase}"
    title += units.at(point.point)
    return f"{style.heading(title)}\n{render_table(rows, headers, style.format)}"


def _cell(runs: ArmRuns, index: Index, phase: str, column: Metric, grouped: bool, style: _Style) -> str:
    """Return the mean over the rounds, and below it the ratio to the baseline with its interval."""
    name = (grouped and column.whole_group) or column.name
    text = units.amount(runs.mean(phase, name), column.unit)
    comparison = index.get((runs.arm, runs.point, phase, name))
    if comparison is None:
        return text
    if comparison.adjusted is not None:  # a row must not contradict itself
        text = f"{units.amount(comparison.adjusted, column.unit)}°"
    # Next to nothing on most baselines: seconds say more than a 90-fold ratio.
    against = difference_interval(comparison) if column.as_difference else ratio_interval(comparison)
    return f"{text}{style.newline}{against}"


def _failures(session: Session) -> str:
    failed = summary.failed(session)
    return "\n".join(
        f"Failed: {where}: {sample.error}" + (f"\n  full log: {sample.log}" if sample.log else "")
        for where, sample in failed
    )


def _not_run(session: Session) -> str:
    return "\n".join(f"not run: {entry.arm}: {entry.reason}\n  fix: {entry.fix}" for entry in summary.not_run(session))


def _notes(session: Session, analysis: Analysis) -> str:
    calls = (sentence for costs in whole_runs(analysis) if (sentence := largest_group(costs)))
    lines = [*group_notes(analysis.rankings), *notes(session, analysis), *calls]
    return "\n".join(wrap(f"note: {line}") for line in lines)


def _facts(session: Session) -> str:
    if not session.facts:
        return ""
    return "\n".join(f"{key}: {value}" for key, value in session.facts.items())
