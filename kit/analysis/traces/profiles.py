"""CPU in the traced runs of a session: by part of the machine, by function, as flame graphs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kit.analysis.traces.flame import COLOURED, Frame, grow_flame
from kit.analysis.traces.stacks import INCLUSIVE, PART, PATH, SELF, WHOLE, ProfiledRun, StackCost, compare_stacks
from kit.model.profile import Stack
from kit.model.sample import Sample
from kit.model.session import Session

#: Number of functions of each kind that are listed for an arm.
NAMED = 8
#: A function is omitted if one callee accounts for at least this share of its difference.
_PASSED_ON = 0.9

Runs = Mapping[str, Sequence[ProfiledRun]]


@dataclass(frozen=True)
class FunctionCost:
    """A function's own CPU, and its own with that of all that it calls; None where it is among OTHERS."""

    name: str
    own: StackCost | None
    inclusive: StackCost | None


@dataclass(frozen=True)
class ArmProfile:
    """CPU of an arm against its baseline."""

    arm: str
    baseline: str
    whole: StackCost
    parts: Sequence[StackCost]
    functions: Sequence[FunctionCost]  # those that differ most, alone and with callees
    flame: Frame  # each frame with its difference from the baseline


@dataclass(frozen=True)
class ProfileAnalysis:
    """The profiles of one point of a sweep."""

    point: str
    event: str  # what was sampled
    samples: int  # stacks of all runs
    lost: int  # stacks that the kernel could not hand over, of all runs
    rounds: int  # number of traced rounds
    arms: Sequence[ArmProfile]
    flames: Mapping[str, Frame]  # of arms without a baseline


def analyse_profiles(session: Session) -> tuple[ProfileAnalysis, ...]:
    """Return one analysis for each point with stacks. Raises UnreadableError if a profile is not the kit's."""
    traced = [
        sample for sample in session.samples if sample.status == "ok" and any(part.profiles for part in sample.phases)
    ]
    return tuple(
        _at(session, point, [sample for sample in traced if sample.point == point])
        for point in dict.fromkeys(sample.point for sample in traced)
    )


def _at(session: Session, point: str, samples: Sequence[Sample]) -> ProfileAnalysis:
    every = [profile for sample in samples for phase in sample.phases for profile in phase.profiles]
    runs: dict[str, list[ProfiledRun]] = defaultdict(list)
    for sample in samples:
        runs[sample.arm].append(_run(sample))
    pairs = [pair for pair in session.baselines if all(name in runs for name in pair)]
    costs = {by: compare_stacks(runs, pairs, by) for by in (SELF, INCLUSIVE, PART)}
    costs[PATH] = compare_stacks(runs, pairs, PATH, COLOURED)
    arms = []
    for pair in pairs:
        of_pair = {
            by: [cost for cost in stack_costs if (cost.arm, cost.baseline) == pair] for by, stack_costs in costs.items()
        }
        if of_pair[PART]:
            arms.append(_arm(runs, pair, of_pair))
    compared = {profile.arm for profile in arms}
    flames = {arm: grow_flame(runs[arm]) for arm in session.arms if arm in runs and arm not in compared}
    return ProfileAnalysis(
        point,
        every[0].event,
        sum(profile.samples for profile in every),
        sum(profile.lost for profile in every),
        len({sample.round for sample in samples}),
        arms,
        flames,
    )


def mean_stacks(session: Session) -> dict[tuple[str, str], dict[Stack, float]]:
    """Return the seconds per traced run of each stack that the arm may cause, by arm and point."""
    runs: dict[tuple[str, str], list[ProfiledRun]] = defaultdict(list)
    for sample in session.samples:
        if sample.status == "ok" and any(part.profiles for part in sample.phases):
            runs[sample.arm, sample.point].append(_run(sample))
    stacks: dict[tuple[str, str], dict[Stack, float]] = {}
    for key, listed in runs.items():
        stacks[key] = defaultdict(float)
        for run in listed:
            for stack, seconds in run.inside.items():
                stacks[key][stack] += seconds / len(listed)
    return stacks


def _run(sample: Sample) -> ProfiledRun:
    """Return the run with all phases."""
    stacks: dict[Stack, float] = defaultdict(float)
    profiles = [profile for phase in sample.phases for profile in phase.profiles]
    for profile in profiles:
        for stack, seconds in profile.stacks().items():
            stacks[stack] += seconds
    count = sum(profile.samples for profile in profiles)
    return ProfiledRun(sample.round, stacks, sum(stacks.values()) / count if count else 0.0)


def _arm(runs: Runs, pair: tuple[str, str], costs: Mapping[str, Sequence[StackCost]]) -> ArmProfile:
    whole = next(cost for cost in compare_stacks(runs, [pair], WHOLE))
    return ArmProfile(
        *pair, whole, costs[PART], differing(runs, pair, costs[SELF], costs[INCLUSIVE]),
        grow_flame(runs[pair[0]], costs[PATH]),
    )  # fmt: skip


def differing(
    runs: Runs, pair: tuple[str, str], self_costs: Sequence[StackCost], inclusive: Sequence[StackCost]
) -> tuple[FunctionCost, ...]:
    """Return the functions that differ significantly or most, alone or with callees. If a function passes its
    difference on to one callee, only the callee is returned."""
    calls = _callees(runs, pair)
    selves = {cost.name[-1]: cost for cost in self_costs}
    whole = {cost.name[-1]: cost for cost in inclusive}
    significant = {cost.name[-1] for cost in inclusive if cost.difference.significant}
    telling = [cost for cost in inclusive if not _passes_on(cost, calls.get(cost.name[-1], {}), significant)]
    names = [cost.name[-1] for cost in sorted(self_costs, key=_rank)[:NAMED] if cost.name[-1] in whole]
    names += [cost.name[-1] for cost in sorted(telling, key=_rank)[:NAMED]]
    functions = [FunctionCost(name, selves.get(name), whole.get(name)) for name in dict.fromkeys(names)]
    return tuple(sorted(functions, key=lambda function: _size(function.inclusive) if function.inclusive else 0.0))


def _size(cost: StackCost) -> float:
    return -abs(cost.difference.estimate)


def _rank(cost: StackCost) -> tuple[bool, float]:
    """Return a sort key with significant functions first: larger differences that may be noise could otherwise fill a
    table."""
    return not cost.difference.significant, _size(cost)


def _passes_on(cost: StackCost, callees: Mapping[str, float], significant: Collection[str]) -> bool:
    """Return whether one callee explains the function's difference. ``callees``: difference in seconds of each direct
    callee. ``significant``: names of these functions. A significant function does not pass its difference on to one
    that is not."""
    sign = 1 if cost.difference.estimate > 0 else -1
    counted = significant if cost.difference.significant else callees
    most = max((sign * seconds for name, seconds in callees.items() if name in counted), default=0.0)
    return most >= _PASSED_ON * abs(cost.difference.estimate)


def _callees(runs: Runs, pair: tuple[str, str]) -> dict[str, dict[str, float]]:
    """Return seconds per run that each function spends more in each direct callee than on the baseline."""
    callees: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for arm, sign in zip(pair, (1, -1), strict=True):
        for run in runs[arm]:
            for stack, seconds in run.inside.items():
                for caller, callee in set(pairwise(stack[2:])):
                    callees[caller][callee] += sign * seconds / len(runs[arm])
    return callees
