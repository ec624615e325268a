"""CPU by function, arm against baseline: folded stacks of traced runs summed up, and compared within rounds. Pure.

Functions, graphs and the whole include the arm and what worked for it, but neither tracing nor other programs.

A function's CPU is its own (``self``: at the top of the stack), or with all that it calls (``inclusive``: anywhere in
the stack, once if recursive). A run's value is a count of samples. Its noise is that of a count plus the variation
between runs: variance = quantum * mean + (spread * mean)². The spread is that of the workload's whole CPU. Divided by
the root of that variance, functions are about equally noisy, and share their noise estimate as arms do
(``variance_pooling``): three rounds are enough for hundreds of functions. Kernel threads and daemons work when they
find time; their functions are assumed to be noisier, as distant arms are."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kit.analysis.stats import estimators, variance_pooling
from kit.analysis.stats.estimate import Estimate
from kit.analysis.stats.estimators import Floats
from kit.model.profile import OUTSIDE, STEADY, Stack

SELF, INCLUSIVE, PART, PATH, WHOLE = "self", "inclusive", "part", "path", "whole"
#: Names below this share of the CPU in each arm, or with fewer samples in a run, are summed up as OTHERS.
LEAST, FEWEST = 0.002, 5
OTHERS = "others"
#: Assumed noise of an unsteady function, as a factor, up to this number of rounds; with more its own noise counts.
_NOISIER, _FEW = 3.0, 4

Sums = Mapping[Stack, float]  # seconds by name


@dataclass(frozen=True)
class ProfiledRun:
    """One traced run. ``quantum``: seconds that one sample of it represents."""

    round: int
    stacks: Mapping[Stack, float]
    quantum: float

    @cached_property
    def inside(self) -> Mapping[Stack, float]:
        """Return the stacks that the arm may cause."""
        return {stack: seconds for stack, seconds in self.stacks.items() if stack[0] not in OUTSIDE}

    @cached_property
    def frames(self) -> Mapping[Stack, float]:
        """Return the stacks of its flame graph."""
        return by_path(self.inside)

    @cached_property
    def steady(self) -> Mapping[Stack, float]:
        """Return the stacks of the workload, and of programs that serve it immediately."""
        return {stack: seconds for stack, seconds in self.stacks.items() if stack[0] in STEADY}


@dataclass(frozen=True)
class StackCost:
    """CPU of ``name`` in an arm and in its baseline, over the rounds that contain both."""

    by: str  # SELF, INCLUSIVE, PART, PATH or WHOLE
    #: A function; a part of the machine (PART), a stack's beginning (PATH), or empty (WHOLE).
    name: Stack
    arm: str
    baseline: str
    mean: float  # seconds per run
    base_mean: float  # the same of the baseline
    difference: Estimate  # its simultaneous interval is that of all ``family``
    family: int


def by_self(stacks: Mapping[Stack, float]) -> Sums:
    """Return seconds by function, each second counted once. A stack without functions counts for its process."""
    sums: dict[Stack, float] = defaultdict(float)
    for stack, seconds in stacks.items():
        sums[stack[-1:]] += seconds
    return sums


def by_function(stacks: Mapping[Stack, float]) -> Sums:
    """Return seconds by function, each second counted for all functions on the stack."""
    sums: dict[Stack, float] = defaultdict(float)
    for stack, seconds in stacks.items():
        for name in set(stack[2:]):
            sums[(name,)] += seconds
    return sums


def by_part(stacks: Mapping[Stack, float]) -> Sums:
    sums: dict[Stack, float] = defaultdict(float)
    for stack, seconds in stacks.items():
        sums[stack[:1]] += seconds
    return sums


def by_path(stacks: Mapping[Stack, float]) -> Sums:
    """Return seconds by beginning of a stack: the frames of a flame graph."""
    numbers: dict[tuple[int, str], int] = {}  # of a frame, by that of its caller: long stacks are dear to look up
    sums: list[float] = []
    paths: list[Stack] = []
    for stack, seconds in stacks.items():
        caller = -1
        for depth, name in enumerate(stack, 1):
            number = numbers.setdefault((caller, name), len(sums))
            if number == len(sums):
                sums.append(0.0)
                paths.append(stack[:depth])
            sums[number] += seconds
            caller = number
    return dict(zip(paths, sums, strict=True))


_SUMS: Mapping[str, Callable[[ProfiledRun], Sums]] = {
    SELF: lambda run: by_self(run.inside),
    INCLUSIVE: lambda run: by_function(run.inside),
    PART: lambda run: by_part(run.stacks),
    PATH: lambda run: run.frames,
    WHOLE: lambda run: {(): sum(run.inside.values())},
}


def compare_stacks(
    runs: Mapping[str, Sequence[ProfiledRun]], baselines: Iterable[tuple[str, str]], by: str, least: float = LEAST
) -> tuple[StackCost, ...]:
    """Every name in every pair (arm, baseline) that shares a round, the largest difference of a pair first.

    ``runs``: of each arm, one for each round. Names that have less than ``least`` of the CPU in all arms, or fewer than
    FEWEST samples, are summed up as OTHERS where each second is one name's (SELF, PART), and left out where it is not.
    """
    pairs = [(arm, base) for arm, base in baselines if runs.get(arm) and runs.get(base)]
    arms = list(dict.fromkeys(name for pair in pairs for name in pair))
    sums = {arm: {run.round: _SUMS[by](run) for run in runs[arm]} for arm in arms}
    least_seconds = {
        arm: max(least * mean_cpu(runs[arm]), FEWEST * max(run.quantum for run in runs[arm])) for arm in arms
    }
    names = _large(sums, least_seconds)
    if by in (SELF, PART):
        sums = {
            arm: {round_: _folded(run_sums, names) for round_, run_sums in listed.items()}
            for arm, listed in sums.items()
        }
        names = [*names, (OTHERS,)]
    steady = _steady([run for arm in arms for run in runs[arm]], by)
    paired = [name_pair for pair in pairs for name_pair in _paired(runs, pair, sums, names)]
    return _compare(paired, [steady(name_pair.name) for name_pair in paired], by)


def _steady(runs: Sequence[ProfiledRun], by: str) -> Callable[[Stack], bool]:
    """Return whether most of a name's CPU is the workload's."""
    if by in (PART, PATH):
        return lambda name: name[0] in STEADY
    more: dict[Stack, float] = defaultdict(float)
    for run in runs:
        for stack, seconds in run.inside.items():
            sign = 1 if stack[0] in STEADY else -1
            for function in stack[-1:] if by == SELF else set(stack[2:]):
                more[(function,)] += sign * seconds
    return lambda name: more.get(name, 0.0) >= 0


def mean_cpu(runs: Sequence[ProfiledRun]) -> float:
    """Return the seconds per run, of all that ``inside`` keeps."""
    return math.fsum(sum(run.inside.values()) for run in runs) / len(runs)


def _large(sums: Mapping[str, Mapping[int, Sums]], least: Mapping[str, float]) -> list[Stack]:
    """Return the names with at least this number of seconds per run in one arm."""
    large: dict[Stack, None] = {}
    for arm, listed in sums.items():
        added: dict[Stack, float] = defaultdict(float)
        for run_sums in listed.values():
            for name, seconds in run_sums.items():
                added[name] += seconds
        large |= dict.fromkeys(name for name, seconds in added.items() if seconds >= least[arm] * len(listed))
    return list(large)


def _folded(sums: Sums, names: Sequence[Stack]) -> Sums:
    large = {name: sums.get(name, 0.0) for name in names}
    return {**large, (OTHERS,): sum(sums.values()) - sum(large.values())}


@dataclass(frozen=True)
class _Pair:
    """Seconds of a name in the rounds that hold both arms."""

    arm: str
    baseline: str
    name: Stack
    arm_seconds: Floats
    base_seconds: Floats
    scale: float  # about the standard deviation of a difference


def _compare(paired: Sequence[_Pair], steady: Sequence[bool], by: str) -> tuple[StackCost, ...]:
    contrasts = [
        variance_pooling.Contrast(
            ((name_pair.arm, name_pair.name), (name_pair.baseline, name_pair.name)),
            estimators.mean_centre((name_pair.arm_seconds - name_pair.base_seconds) / name_pair.scale),
            alike or name_pair.arm_seconds.size <= _FEW,
            scale=(1.0, 1.0) if alike else (_NOISIER, _NOISIER),
        )
        for name_pair, alike in zip(paired, steady, strict=True)
    ]
    shared = variance_pooling.share(contrasts, len(contrasts))
    costs = [_cost(name_pair, centre, by, len(paired)) for name_pair, centre in zip(paired, shared, strict=True)]
    order = {
        pair: number
        for number, pair in enumerate(dict.fromkeys((name_pair.arm, name_pair.baseline) for name_pair in paired))
    }
    return tuple(sorted(costs, key=lambda cost: (order[cost.arm, cost.baseline], -abs(cost.difference.estimate))))


def _paired(
    runs: Mapping[str, Sequence[ProfiledRun]],
    pair: tuple[str, str],
    sums: Mapping[str, Mapping[int, Sums]],
    names: Sequence[Stack],
) -> Iterator[_Pair]:
    ours, theirs = (sums[arm] for arm in pair)
    rounds = [round_ for round_ in ours if round_ in theirs]
    if not rounds:
        return
    spread = _spread(runs, pair)
    quantum = max((run.quantum for arm in pair for run in runs[arm]), default=0.0)
    for name in names:
        arm_seconds, base_seconds = (
            np.array([by_round[round_].get(name, 0.0) for round_ in rounds]) for by_round in (ours, theirs)
        )
        mean = float(arm_seconds.sum() + base_seconds.sum()) / len(rounds)
        # The variance is at least one sample's: an unseen function could still appear in the next run.
        scale = math.sqrt(quantum * max(mean, quantum) + (spread * mean / 2) ** 2)
        yield _Pair(*pair, name, arm_seconds, base_seconds, scale or 1.0)


def _spread(runs: Mapping[str, Sequence[ProfiledRun]], pair: tuple[str, str]) -> float:
    """Return the standard deviation of the log ratio between a workload's CPU and its baseline's; 0 if unknown."""
    wholes = [{run.round: sum(run.steady.values()) for run in runs[arm]} for arm in pair]
    logs = [
        math.log(seconds / wholes[1][round_])
        for round_, seconds in wholes[0].items()
        if seconds > 0 and wholes[1].get(round_, 0.0) > 0
    ]
    return float(np.std(logs, ddof=1)) if len(logs) > 1 else 0.0


def _cost(name_pair: _Pair, centre: variance_pooling.PooledEstimate, by: str, family: int) -> StackCost:
    mean, base = float(name_pair.arm_seconds.mean()), float(name_pair.base_seconds.mean())
    difference = replace(centre.estimated().map(lambda end: end * name_pair.scale), estimate=mean - base)
    return StackCost(by, name_pair.name, name_pair.arm, name_pair.baseline, mean, base, difference, family)
