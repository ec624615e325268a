"""CPU by function, arm against baseline: folded stacks of traced runs summed up, and compared within blocks. Pure.

Functions, and the whole, are those of the arm and of what worked for it: neither tracing nor other programs.

A function's CPU is its own (``self``: it stood at the top of the stack) or its own and that of all it calls
(``inclusive``: it stood anywhere in it, once where it calls itself). What a run has of it is a count of samples, so
that its noise is that of a count, and what runs differ by besides: variance = quantum * mean + (spread * mean)², the
spread being that of the workload's whole CPU. Divided by the root of that, its functions are about equally noisy, and
share what they tell of the noise as arms do (kit.analysis.pool): three blocks are enough for hundreds of functions.
Those of kernel threads and daemons, which work when they find time, are taken to be noisier, as arms far off are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kit.analysis import pool, stats
from kit.analysis.stats import Floats
from kit.model.profile import OUTSIDE, STEADY, Stack

SELF, INCLUSIVE, PART, PATH, WHOLE = "self", "inclusive", "part", "path", "whole"
#: What has less than this share of the CPU in each arm is summed up under the name of OTHERS.
LEAST = 0.002
OTHERS = "others"

Sums = Mapping[Stack, float]  # seconds by name


@dataclass(frozen=True)
class ProfiledRun:
    """One traced run. ``quantum``: seconds that one sample of it stands for."""

    block: int
    stacks: Mapping[Stack, float]
    quantum: float

    @cached_property
    def inside(self) -> Mapping[Stack, float]:
        """Without what the arm is no reason of."""
        return {stack: seconds for stack, seconds in self.stacks.items() if stack[0] not in OUTSIDE}

    @cached_property
    def steady(self) -> Mapping[Stack, float]:
        """The workload's, and of what serves it at once."""
        return {stack: seconds for stack, seconds in self.stacks.items() if stack[0] in STEADY}


@dataclass(frozen=True)
class StackCost:
    """Seconds of CPU per run of ``name`` in an arm and in its baseline, over ``n`` blocks that hold both, and by how
    much they differ, with the 95 % interval of this difference alone and of all ``family`` at once; None where n < 2.

    ``by``: SELF or INCLUSIVE, where the name is a function's; PART, a part of the machine; PATH, a stack's beginning;
    WHOLE, all of it, which has no name.
    """

    by: str
    name: Stack
    arm: str
    baseline: str
    mean: float
    base_mean: float
    difference: float
    low: float | None
    high: float | None
    low_all: float | None
    high_all: float | None
    n: int
    family: int

    @property
    def certain(self) -> bool:
        """Whether the interval of all at once leaves out that nothing differs."""
        return self.low_all is not None and self.high_all is not None and not self.low_all <= 0 <= self.high_all


def by_self(stacks: Mapping[Stack, float]) -> Sums:
    """Each second is one function's. A stack without functions is its process's."""
    found: dict[Stack, float] = defaultdict(float)
    for stack, seconds in stacks.items():
        found[stack[-1:]] += seconds
    return found


def by_function(stacks: Mapping[Stack, float]) -> Sums:
    """A second is that of all functions that it was spent in."""
    found: dict[Stack, float] = defaultdict(float)
    for stack, seconds in stacks.items():
        for name in set(stack[2:]):
            found[(name,)] += seconds
    return found


def by_part(stacks: Mapping[Stack, float]) -> Sums:
    found: dict[Stack, float] = defaultdict(float)
    for stack, seconds in stacks.items():
        found[stack[:1]] += seconds
    return found


def by_path(stacks: Mapping[Stack, float]) -> Sums:
    """Of every beginning of a stack: the frames of a flame graph."""
    found: dict[Stack, float] = defaultdict(float)
    for stack, seconds in stacks.items():
        for depth in range(1, len(stack) + 1):
            found[stack[:depth]] += seconds
    return found


def by_nothing(stacks: Mapping[Stack, float]) -> Sums:
    return {(): sum(stacks.values())}


_SUMS: Mapping[str, Callable[[Mapping[Stack, float]], Sums]] = {
    SELF: by_self,
    INCLUSIVE: by_function,
    PART: by_part,
    PATH: by_path,
    WHOLE: by_nothing,
}


def compare_stacks(
    runs: Mapping[str, Sequence[ProfiledRun]], baselines: Iterable[tuple[str, str]], by: str, least: float = LEAST
) -> tuple[StackCost, ...]:
    """Every name in every pair (arm, baseline) that shares a block, the largest difference of a pair first.

    ``runs``: of each arm, one for each block. Names that have less than ``least`` of the CPU in all arms are summed up
    as OTHERS where each second is one name's (SELF, PART), and left out where it is not.
    """
    pairs = [(arm, base) for arm, base in baselines if runs.get(arm) and runs.get(base)]
    arms = list(dict.fromkeys(name for pair in pairs for name in pair))
    everything = by in (PART, PATH)
    sums = {arm: {run.block: _SUMS[by](run.stacks if everything else run.inside) for run in runs[arm]} for arm in arms}
    names = _large(sums, {arm: mean_cpu(runs[arm]) for arm in arms}, least)
    if by in (SELF, PART):
        sums = {arm: {block: _folded(found, names) for block, found in listed.items()} for arm, listed in sums.items()}
        names = [*names, (OTHERS,)]
    steady = _steady([run for arm in arms for run in runs[arm]], by)
    return _compare(runs, pairs, sums, {name: steady(name) for name in names}, by)


def _steady(runs: Sequence[ProfiledRun], by: str) -> Callable[[Stack], bool]:
    """Whether most of what bears a name is the workload's."""
    if by in (PART, PATH):
        return lambda name: name[0] in STEADY
    inside: dict[Stack, float] = defaultdict(float)
    for run in runs:
        for found, sign in ((run.steady, 1), (run.inside, -0.5)):
            for name, seconds in _SUMS[by](found).items():
                inside[name] += sign * seconds
    return lambda name: name == (OTHERS,) or inside[name] >= 0


def mean_cpu(runs: Sequence[ProfiledRun]) -> float:
    """Seconds per run, of all that is inside."""
    return math.fsum(sum(run.inside.values()) for run in runs) / len(runs)


def _large(sums: Mapping[str, Mapping[int, Sums]], wholes: Mapping[str, float], least: float) -> list[Stack]:
    kept: dict[Stack, None] = {}
    for arm, listed in sums.items():
        added: dict[Stack, float] = defaultdict(float)
        for found in listed.values():
            for name, seconds in found.items():
                added[name] += seconds
        kept |= dict.fromkeys(name for name, seconds in added.items() if seconds >= least * wholes[arm] * len(listed))
    return list(kept)


def _folded(found: Sums, names: Sequence[Stack]) -> Sums:
    large = {name: found.get(name, 0.0) for name in names}
    return {**large, (OTHERS,): sum(found.values()) - sum(large.values())}


@dataclass(frozen=True)
class _Pair:
    """Seconds of a name in the blocks that hold both arms."""

    arm: str
    baseline: str
    name: Stack
    one: Floats
    other: Floats
    scale: float  # about the standard deviation of a difference


def _compare(
    runs: Mapping[str, Sequence[ProfiledRun]],
    pairs: Sequence[tuple[str, str]],
    sums: Mapping[str, Mapping[int, Sums]],
    names: Mapping[Stack, bool],
    by: str,
) -> tuple[StackCost, ...]:
    """``names``: and whether each is the workload's."""
    found = [_pair(runs, pair, sums, name) for pair in pairs for name in names]
    paired = [item for item in found if item]
    contrasts = [
        pool.Contrast(
            ((item.arm, item.name), (item.baseline, item.name)),
            stats.mean_centre((item.one - item.other) / item.scale),
            alike=names[item.name],
        )
        for item in paired
    ]
    shared = pool.share(contrasts, len(contrasts))
    made = [_cost(item, centre, by, len(paired)) for item, centre in zip(paired, shared, strict=True)]
    order = {pair: number for number, pair in enumerate(pairs)}
    return tuple(sorted(made, key=lambda item: (order[item.arm, item.baseline], -abs(item.difference))))


def _pair(
    runs: Mapping[str, Sequence[ProfiledRun]],
    pair: tuple[str, str],
    sums: Mapping[str, Mapping[int, Sums]],
    name: Stack,
) -> _Pair | None:
    ours, theirs = (sums[arm] for arm in pair)
    blocks = [block for block in ours if block in theirs]
    if not blocks:
        return None
    one, other = (np.array([found[block].get(name, 0.0) for block in blocks]) for found in (ours, theirs))
    quantum = max((run.quantum for arm in pair for run in runs[arm]), default=0.0)
    mean = float(one.mean() + other.mean())
    # At least one sample's: a function that was seen in no run of the two could still have been in the next.
    scale = math.sqrt(quantum * max(mean, quantum) + (_spread(runs, pair) * mean / 2) ** 2)
    return _Pair(*pair, name, one, other, scale or 1.0)


def _spread(runs: Mapping[str, Sequence[ProfiledRun]], pair: tuple[str, str]) -> float:
    """Standard deviation of the logarithm of a workload's CPU against its baseline's; 0 where it can't be told."""
    wholes = [{run.block: sum(run.steady.values()) for run in runs[arm]} for arm in pair]
    logs = [
        math.log(one / wholes[1][block])
        for block, one in wholes[0].items()
        if one > 0 and wholes[1].get(block, 0.0) > 0
    ]
    return float(np.std(logs, ddof=1)) if len(logs) > 1 else 0.0


def _cost(item: _Pair, centre: pool.Shared, by: str, family: int) -> StackCost:
    alone, together = centre.interval(), centre.interval_together()
    low, high, low_all, high_all = (
        None if end is None else end * item.scale for end in (alone.low, alone.high, together.low, together.high)
    )
    mean, base = float(item.one.mean()), float(item.other.mean())
    return StackCost(
        by,
        item.name,
        item.arm,
        item.baseline,
        mean,
        base,
        mean - base,
        low,
        high,
        low_all,
        high_all,
        item.one.size,
        family,
    )
