"""A build task by task: the extra cost of each kind of task and each recipe over the baseline, beside the phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from kit.analysis.session.analyse import Analysis
from kit.analysis.session.tasks import ALL, CPU, ELAPSED, KIND, RECIPE, REST, TaskCost
from kit.report.format import units
from kit.report.format.interval import difference_interval, percent_interval
from kit.report.format.table import render_table

_BY = {KIND: "kind of task", RECIPE: "recipe"}
_WHOLE = {ALL: "all tasks", REST: "bitbake itself"}


@dataclass(frozen=True)
class TaskTable:
    """Of one arm against its baseline, the largest parts first, then the whole."""

    phase: str
    point: str
    title: str
    headers: tuple[str, ...]
    rows: list[list[str]]

    def text(self, tablefmt: str) -> str:
        return f"{self.title}\n{render_table(self.rows, self.headers, tablefmt)}"


def task_tables(analysis: Analysis, newline: str = "\n") -> list[TaskTable]:
    """Return one table by kind and one by recipe for each arm, phase and point with tasks."""
    index: dict[tuple[str, str, str, str], list[TaskCost]] = {}
    for cost in analysis.tasks:
        comparison = cost.comparison
        index.setdefault((comparison.arm, comparison.baseline, comparison.phase, comparison.point), []).append(cost)
    return [_table(analysis, costs, by, newline) for costs in index.values() for by in _BY]


def largest_part(analysis: Analysis, arm: str, point: str) -> str:
    """Return a sentence on the kind of task whose elapsed time grew most; '' if none is significantly the largest."""
    elapsed = [
        cost
        for cost in analysis.tasks
        if (cost.comparison.arm, cost.comparison.point, cost.comparison.metric) == (arm, point, ELAPSED)
    ]
    for cost in elapsed:
        if cost.largest:
            whole = next(
                other for other in elapsed if other.by == ALL and other.comparison.phase == cost.comparison.phase
            )
            return (
                f"{arm}{units.at(point)}, task by task{_of_copies(cost)}: the largest part is {cost.name}'s, "
                f"{_seconds(cost)} of {whole.comparison.difference:+z.2f} s more elapsed than on "
                f"{cost.comparison.baseline}"
            )
    return ""


def _table(analysis: Analysis, costs: Sequence[TaskCost], by: str, newline: str) -> TaskTable:
    example = next(cost for cost in costs if cost.by == by)
    first = example.comparison
    metrics = [name for name in (CPU, ELAPSED) if any(cost.comparison.metric == name for cost in costs)]
    groups = (by, *_WHOLE) if by == KIND else (by,)
    rows = []
    for part in dict.fromkeys((cost.by, cost.name) for cost in costs if cost.by in groups):
        by_metric = {cost.comparison.metric: cost for cost in costs if (cost.by, cost.name) == part}
        cells = [_cells(by_metric.get(metric), newline) for metric in metrics]
        rows.append([_WHOLE.get(*part), *chain.from_iterable(cells)])
    if by == KIND:
        rows.append(_phase(analysis, example, metrics, newline))
    rounds = f"{first.n} round{'s' if first.n > 1 else ''}"
    title = f"{first.phase} by {_BY[by]}{_of_copies(example)}: {units.against(first)}, {rounds}"
    if first.family > 1 and first.n > 1:
        alone = 1 + len({cost.by for cost in costs if cost.by in _WHOLE})
        title += f"; intervals simultaneous for all {first.family}"
        title += f", individual in the last {alone} rows" if by == KIND else ""
    base = first.baseline
    headers = [text for metric in metrics for text in (f"{_heading(metric)}, {base}", "more, 95 %")]
    return TaskTable(first.phase, first.point, title, (_BY[by], *headers), rows)


def _of_copies(cost: TaskCost) -> str:
    return " of the first copy" if cost.copies > 1 else ""


def _heading(metric: str) -> str:
    return "CPU" if metric == CPU else metric


def _cells(cost: TaskCost | None, newline: str) -> tuple[str, str]:
    """Return the baseline's value, and how much more the arm has."""
    if cost is None:
        return units.NOTHING, units.NOTHING
    comparison = cost.comparison
    interval = percent_interval(comparison.estimate if cost.by in _WHOLE else comparison.together)
    ratio = f"{newline}{interval}" if comparison.ratio else ""
    return units.seconds(cost.base_mean), f"{_seconds(cost)}{ratio}"


def _seconds(cost: TaskCost) -> str:
    return difference_interval(cost.comparison, together=cost.by not in _WHOLE)


def _phase(analysis: Analysis, part: TaskCost, metrics: Sequence[str], newline: str) -> list[str]:
    """Return the phase as the kit has measured it."""
    pair, whole = part.comparison, "the phase, all copies" if part.copies > 1 else "the phase"
    row = [f"{whole}: CPU, real"] if CPU in metrics else [f"{whole}: real"]
    for metric in metrics:
        name = CPU if metric == CPU else "real"
        measured = next(
            comparison
            for comparison in analysis.comparisons
            if (comparison.arm, comparison.baseline, comparison.phase, comparison.point, comparison.metric)
            == (pair.arm, pair.baseline, pair.phase, pair.point, name)
        )
        mean = analysis.arm(pair.baseline, pair.point).mean(pair.phase, name)
        change = percent_interval(measured.estimate)
        row += [units.seconds(mean), f"{difference_interval(measured)}{newline}{change}"]
    return row
