"""Tasks of a build, arm against baseline: the kinds of task and the recipes that cause a phase's penalty. Pure.

In every run the tasks of one kind are summed up, CPU and elapsed time each. These sums are paired within rounds, as a
phase's own figures are. Tasks run in parallel, so elapsed times add up to more than the phase's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from kit.analysis.runs.compare import Comparison, compare_paired, is_control
from kit.analysis.runs.paired import COPIES, Paired
from kit.analysis.runs.run_table import Key, Runs
from kit.analysis.stats import estimators, variance_pooling
from kit.analysis.stats.estimators import Floats, mean_centre
from kit.model.sample import TOTAL
from kit.model.sweep import Values, copies_at
from kit.parsers.task import BuildTask

#: Groups of tasks; ``all`` of them, and the phase's CPU outside any task.
KIND, RECIPE, ALL, REST = "kind", "recipe", "all", "rest"
#: Groups below a hundredth of the total are summed up under this name.
OTHERS, LEAST = "others", 0.01
CPU, ELAPSED = "cpu", "elapsed"

Sums = Mapping[str, Floats]  # by name: metrics x runs
_METRICS = (CPU, ELAPSED)
_NAMES: Mapping[str, Callable[[BuildTask], str]] = {
    KIND: lambda task: task.kind,
    RECIPE: lambda task: task.recipe,
    ALL: lambda task: "",
}


@dataclass(frozen=True)
class TaskCost:
    """The cost of a group of a phase's tasks in a run, in the metric of its comparison: CPU of their processes, or the
    time from their start to their end."""

    by: str  # KIND or RECIPE; or ALL or REST, which have no name
    name: str  # a kind, a recipe, or OTHERS
    mean: float  # seconds per run, over the compared rounds
    base_mean: float  # the same of the baseline
    #: Its family is all groups by kind, or by recipe, in this phase and metric.
    comparison: Comparison
    #: This kind's elapsed time grew by more than each other kind's, with all pairs of kinds tested.
    largest: bool = False
    #: Copies of the workload at once; tasks are those of the first alone, so more than one has no REST.
    copies: int = 1


def compare_tasks(runs: Runs, baselines: Sequence[tuple[str, str]], params: Values = ()) -> tuple[TaskCost, ...]:
    """Compare every pair (arm, baseline) in every phase whose tasks a build tool has recorded. ``params``: those of the
    session."""
    costs: list[TaskCost] = []
    for point in runs.points:
        copies = copies_at(point, params)
        pairs = [((arm, point), (base, point)) for arm, base in baselines]
        pairs = [pair for pair in pairs if all(runs.has(key) for key in pair)]
        keys = list(dict.fromkeys(key for pair in pairs for key in pair))
        for phase in [name for name in runs.phases(keys) if name != TOTAL]:
            able = [key for key in keys if any(runs.tasks(key, phase))]
            here = [pair for pair in pairs if set(pair) <= set(able)]
            if here:
                phase_costs = [cost for by in (KIND, RECIPE) for cost in _parts(runs, here, able, phase, by)]
                phase_costs += _whole(runs, here, able, phase, outside_tasks=copies == 1)
                costs += [replace(cost, copies=copies) for cost in phase_costs]
    return tuple(costs)


def _parts(
    runs: Runs, pairs: Sequence[tuple[Key, Key]], keys: Sequence[Key], phase: str, by: str
) -> Iterator[TaskCost]:
    """Return the groups, the largest first."""
    sums = _fold({key: runs.once(_sum_up, runs, key, phase, by) for key in keys})
    names = list(next(iter(sums.values())))
    counted = sum(not is_control(arm) for (arm, _), _ in pairs)
    for place, metric in enumerate(_METRICS):
        paired = {name: _pair(runs, pairs, {key: sums[key][name][place] for key in keys}, metric) for name in names}
        first = {pair: _dearest(paired, pair) if (by, metric) == (KIND, ELAPSED) else "" for pair in pairs}
        for name, task_pairs in paired.items():
            for cost in _costs(task_pairs, phase, by, name, counted * len(names)):
                key = (cost.comparison.arm, cost.comparison.point)
                yield replace(cost, largest=any(arm == key and first[arm, base] == name for arm, base in pairs))


def _whole(
    runs: Runs, pairs: Sequence[tuple[Key, Key]], keys: Sequence[Key], phase: str, outside_tasks: bool
) -> Iterator[TaskCost]:
    """Return all tasks, and with ``outside_tasks`` the CPU of the phase's control group outside them."""
    sums = {key: runs.once(_sum_up, runs, key, phase, ALL)[""] for key in keys}
    counted = sum(not is_control(arm) for (arm, _), _ in pairs)
    for place, metric in enumerate(_METRICS):
        yield from _costs(_pair(runs, pairs, {key: sums[key][place] for key in keys}, metric), phase, ALL, "", counted)
    if outside_tasks:
        remainder = {key: runs.values(key, phase, CPU) - sums[key][0] for key in keys}
        yield from _costs(_pair(runs, pairs, remainder, CPU), phase, REST, "", counted)


def _sum_up(runs: Runs, key: Key, phase: str, by: str) -> Sums:
    """Return the sums; NaN in runs without recorded tasks, and for CPU if a task lacks it."""
    listed, name_of = runs.tasks(key, phase), _NAMES[by]
    names = dict.fromkeys(name_of(task) for tasks in listed for task in tasks) or {"": None}
    by_name = {name: np.zeros((len(_METRICS), len(listed))) for name in names}
    for i, tasks in enumerate(listed):
        for task in tasks:
            by_name[name_of(task)][:, i] += (np.nan if task.cpu is None else task.cpu, task.elapsed)
    unknown = np.array([not tasks for tasks in listed])
    for sums in by_name.values():
        sums[:, unknown] = np.nan
    return by_name


def _fold(sums: Mapping[Key, Sums]) -> dict[Key, dict[str, Floats]]:
    """Return the tasks by name: those that matter in either metric, the largest first, then OTHERS."""
    names = dict.fromkeys(name for arm_sums in sums.values() for name in arm_sums if name)
    nothing = {key: np.where(np.isnan(sum(arm_sums.values())), np.nan, 0.0) for key, arm_sums in sums.items()}
    full = {key: {name: sums[key].get(name, nothing[key]) for name in names} for key in sums}
    means = {name: [np.nan_to_num(arm_sums[name]).mean(axis=1) for arm_sums in full.values()] for name in names}
    size = {name: np.sum(listed, axis=0) for name, listed in means.items()}
    whole = np.sum(list(size.values()), axis=0)
    large = [name for name in names if bool((size[name] >= LEAST * whole)[whole > 0].any())]
    large.sort(key=lambda name: -float(size[name][1]))
    small = [name for name in names if name not in large]
    folded = {key: {name: arm_sums[name] for name in large} for key, arm_sums in full.items()}
    if small:
        for key, arm_sums in full.items():
            folded[key][OTHERS] = np.sum([arm_sums[name] for name in small], axis=0)
    return folded


def _pair(
    runs: Runs, pairs: Sequence[tuple[Key, Key]], values: Mapping[Key, Floats], metric: str
) -> dict[tuple[Key, Key], Paired]:
    """Pair the rounds that contain both."""
    paired = {}
    for arm, base in pairs:
        ours, theirs = runs.common([arm, base])
        arm_values, base_values = values[arm][ours], values[base][theirs]
        both = np.isfinite(arm_values) & np.isfinite(base_values)
        if both.any():
            copies = COPIES if runs.interleaved(arm) else 0.0
            paired[arm, base] = Paired(arm, base, metric, arm_values[both], base_values[both], None, None, copies)
    return paired


def _costs(paired: Mapping[tuple[Key, Key], Paired], phase: str, by: str, name: str, family: int) -> Iterator[TaskCost]:
    listed = list(paired.values())
    for pair, comparison in zip(listed, compare_paired(listed, phase, family), strict=True):
        yield TaskCost(by, name, float(pair.arm_values.mean()), float(pair.base_values.mean()), comparison)


def _dearest(paired: Mapping[str, Mapping[tuple[Key, Key], Paired]], pair: tuple[Key, Key]) -> str:
    """Return the most expensive kind (see TaskCost); '' without a significant one. Bonferroni's inequality over all
    pairs of kinds, since their noise differs. Errors of copies are taken as independent between kinds; if the same copy
    makes all kinds slower, they are less."""
    by_kind = {name: of_kind[pair] for name, of_kind in paired.items() if pair in of_kind}
    rises = {name: pair.arm_values - pair.base_values for name, pair in by_kind.items()}
    copied = {name: pair.copies * float(pair.base_values.mean()) for name, pair in by_kind.items()}
    if len(rises) < 2:
        return ""
    first, *others = sorted(rises, key=lambda name: -float(rises[name].mean()))
    confidence = estimators.family_confidence(len(list(combinations(rises, 2))))
    ends = [_low(rises[first] - rises[other], math.hypot(copied[first], copied[other]), confidence) for other in others]
    ends.append(_low(rises[first], copied[first], confidence))
    return first if first != OTHERS and all(end is not None and end > 0 for end in ends) else ""


def _low(values: Floats, copy_error: float, confidence: float) -> float | None:
    """Return the lower end of the mean's interval. ``copy_error``: standard deviation of an error that rounds do not
    show."""
    interval = mean_centre(values).interval(confidence)
    if interval.low is None:
        return None
    half = copy_error * estimators.student_quantile(0.5 + confidence / 2, variance_pooling.MANY)
    return interval.estimate - math.hypot(interval.estimate - interval.low, half)
