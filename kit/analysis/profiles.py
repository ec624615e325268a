"""What the traced runs of a session say of CPU: by part of the machine, by function, as flame graphs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kit.analysis.flame import COLOURED, Frame, grow_flame
from kit.analysis.stacks import INCLUSIVE, PART, PATH, SELF, WHOLE, ProfiledRun, StackCost, compare_stacks
from kit.model.profile import Stack
from kit.model.sample import Sample
from kit.model.session import Session

#: Functions of each kind that are named for an arm.
NAMED = 8
#: A function that one callee takes so much of the difference of has nothing to say of its own.
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
    """Of an arm against its baseline. ``functions``: those that differ most, by their own CPU and by what they call;
    ``flame``: with each frame against the baseline."""

    arm: str
    baseline: str
    whole: StackCost
    parts: Sequence[StackCost]
    functions: Sequence[FunctionCost]
    flame: Frame


@dataclass(frozen=True)
class ProfileAnalysis:
    """At one point of a sweep. ``event``: what was sampled; ``samples`` and ``lost`` of all runs; ``blocks``: how many
    rounds. ``flames``: of arms without a baseline."""

    point: str
    event: str
    samples: int
    lost: int
    blocks: int
    arms: Sequence[ArmProfile]
    flames: Mapping[str, Frame]


def analyse_profiles(session: Session) -> tuple[ProfileAnalysis, ...]:
    """One for each point of which stacks were taken. Raises UnreadableError where a profile is none of the kit's."""
    traced = [item for item in session.samples if item.status == "ok" and any(part.profiles for part in item.phases)]
    return tuple(
        _at(session, point, [item for item in traced if item.point == point])
        for point in dict.fromkeys(item.point for item in traced)
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
        mine = {by: [item for item in found if (item.arm, item.baseline) == pair] for by, found in costs.items()}
        if mine[PART]:
            arms.append(_arm(runs, pair, mine))
    compared = {item.arm for item in arms}
    flames = {arm: grow_flame(runs[arm]) for arm in session.arms if arm in runs and arm not in compared}
    return ProfileAnalysis(
        point,
        every[0].event,
        sum(item.samples for item in every),
        sum(item.lost for item in every),
        len({item.block for item in samples}),
        arms,
        flames,
    )


def _run(sample: Sample) -> ProfiledRun:
    """All phases of it."""
    stacks: dict[Stack, float] = defaultdict(float)
    profiles = [profile for phase in sample.phases for profile in phase.profiles]
    for profile in profiles:
        for stack, seconds in profile.stacks().items():
            stacks[stack] += seconds
    taken = sum(profile.samples for profile in profiles)
    return ProfiledRun(sample.block, stacks, sum(stacks.values()) / taken if taken else 0.0)


def _arm(runs: Runs, pair: tuple[str, str], mine: Mapping[str, Sequence[StackCost]]) -> ArmProfile:
    whole = next(item for item in compare_stacks(runs, [pair], WHOLE))
    return ArmProfile(
        *pair, whole, mine[PART], differing(runs, pair, mine[SELF], mine[INCLUSIVE]),
        grow_flame(runs[pair[0]], mine[PATH]),
    )  # fmt: skip


def differing(
    runs: Runs, pair: tuple[str, str], own: Sequence[StackCost], inclusive: Sequence[StackCost]
) -> tuple[FunctionCost, ...]:
    """Those that are told to differ, and that differ most, in either way, by what they and all that they call differ;
    of those that pass a difference on to one callee the callee alone."""
    calls = _callees(runs, pair)
    selves = {item.name[-1]: item for item in own}
    whole = {item.name[-1]: item for item in inclusive}
    told = {item.name[-1] for item in inclusive if item.certain}
    telling = [item for item in inclusive if not _passes_on(item, calls.get(item.name[-1], {}), told)]
    named = [item.name[-1] for item in sorted(own, key=_rank)[:NAMED] if item.name[-1] in whole]
    named += [item.name[-1] for item in sorted(telling, key=_rank)[:NAMED]]
    found = [FunctionCost(name, selves.get(name), whole.get(name)) for name in dict.fromkeys(named)]
    return tuple(sorted(found, key=lambda item: _size(item.inclusive) if item.inclusive else 0.0))


def _size(item: StackCost) -> float:
    return -abs(item.difference)


def _rank(item: StackCost) -> tuple[bool, float]:
    """What is told first: else larger differences that may be noise could leave none of it in a table."""
    return not item.certain, _size(item)


def _passes_on(item: StackCost, callees: Mapping[str, float], told: Collection[str]) -> bool:
    """``callees``: by how many seconds what it calls differs, each by name. ``told``: names of functions that are told
    to differ: what is told itself has passed nothing on to one that is not."""
    sign = 1 if item.difference > 0 else -1
    most = max((sign * seconds for name, seconds in callees.items() if name in told or not item.certain), default=0.0)
    return most >= _PASSED_ON * abs(item.difference)


def _callees(runs: Runs, pair: tuple[str, str]) -> dict[str, dict[str, float]]:
    """Seconds per run that each function spends more in each that it calls, directly, than on the baseline."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for arm, sign in zip(pair, (1, -1), strict=True):
        for run in runs[arm]:
            for stack, seconds in run.inside.items():
                for one, other in set(pairwise(stack[2:])):
                    found[one][other] += sign * seconds / len(runs[arm])
    return found
