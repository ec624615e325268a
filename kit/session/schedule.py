"""The schedule: which block comes next, given what has been measured, and when a session ends. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from kit.analysis.burst import find_bursts, own_nature
from kit.analysis.columns import Runs
from kit.analysis.compare import Comparison, compare
from kit.analysis.ladder import rungs
from kit.model.plan import MOST_ROUNDS, Plan, PlanStep
from kit.model.sample import Sample

#: At most this share of a session's blocks is run again because of bursts: beyond it they are the machine's nature.
REPEATS = 0.25


@dataclass(frozen=True)
class Block:
    """Runs to make one after the other, in this order. ``reason``: why, in words, where the plan did not say so."""

    number: int
    steps: tuple[PlanStep, ...]
    reason: str = ""


@dataclass(frozen=True)
class End:
    """The session is complete. ``reason`` says by what rule."""

    reason: str


class Schedule:
    """Gives blocks one by one; also takes up a session that was stopped, from its samples alone.

    ``able``: the arms that can run here. Ask ``next`` anew after every block, with all samples so far.
    """

    def __init__(self, plan: Plan, able: Iterable[str]) -> None:
        self._plan = plan
        self._able = frozenset(able)
        self._number = 0
        self._warm = plan.cache == "warm"
        self._pending: Block | End | None = None
        self._repeats: list[Block] | None = None

    def least(self, samples: Sequence[Sample]) -> int:
        """The number of runs that are certain to come: what is left of the fixed rounds, and their warm-ups."""
        done = _done(samples)
        numbers = self._plan.blocks or range(1, self._plan.rounds + 1)
        steps = [step for number in numbers for step in self._mine(self._plan.block(number))]
        left = sum((step.block, str(step.arm), step.point) not in done for step in steps)
        return left + (len(self._mine(self._plan.block(0))) if left and self._warm else 0)

    def next(self, samples: Sequence[Sample], left: float | None = None, run_seconds: float = 0.0) -> Block | End:
        """``left``: seconds of the budget that remain, None without one. ``run_seconds``: what one run takes."""
        block, self._pending = self._pending or self._planned(samples), None
        if isinstance(block, End):
            repetition = self._repeat(samples)
            if repetition is None:
                return block
            block = repetition
        if self._warm:
            self._warm = False
            self._pending = block
            block = Block(0, self._mine(self._plan.block(0)))
        if left is not None and left <= 0:
            return End("the budget is over")
        if left is not None and run_seconds and len(block.steps) * run_seconds > left:
            what = f"round {block.number}" if block.steps[0].repeats is None else "a repetition"
            return End(f"the budget does not last for {what}")
        return block

    def _planned(self, samples: Sequence[Sample]) -> Block | End:
        """The next block of which something is left, or the end of the plan."""
        done = _done(samples)
        while True:
            number = self._number + 1
            earlier = [item for item in samples if item.block < number and item.repeats is None]
            active, reason = self._active(number, earlier)
            if not active:
                return End(reason)
            self._number = number
            if self._plan.blocks and number not in self._plan.blocks:
                continue
            steps = [step for step in self._mine(self._plan.block(number)) if str(step.arm) in active]
            rest = tuple(step for step in steps if (number, str(step.arm), step.point) not in done)
            if rest:
                return Block(number, self._whole(steps, rest), reason)

    def _active(self, number: int, earlier: Sequence[Sample]) -> tuple[frozenset[str], str]:
        """The arms that take part in this block, and why; none: why it is over."""
        plan = self._plan
        if number <= plan.rounds:
            return self._able, ""
        if not plan.sequential:
            return frozenset(), f"{plan.rounds} round{'s' if plan.rounds > 1 else ''}, as planned"
        if number > MOST_ROUNDS:
            return frozenset(), f"{MOST_ROUNDS} rounds: the most that are made"
        if plan.precision is None:
            return self._able, "the budget lasts"
        # An interval that has just become narrow is so in part by luck, and holds less often than it says. Judged
        # without the latest round, that luck is diluted (Hall 1981 continues after stopping for the same reason).
        runs = Runs(item for item in earlier if item.block < number - 1)
        unsettled = [item for item in total_comparisons(runs, plan) if item.reach > plan.precision]
        unsettled = [item for item in unsettled if not item.control]
        names = {item.arm for item in unsettled}
        if not names:
            return frozenset(), f"every interval was within ±{plan.precision:.2%} of its ratio one round ago".replace(
                ".00", ""
            )
        widest = max(unsettled, key=lambda item: item.reach)
        reason = f"round {number}: {', '.join(sorted(names))} not within ±{plan.precision:.1%} yet"
        return self._needed(names), f"{reason}; widest: {widest.arm} ±{widest.reach:.1%}"

    def _needed(self, names: Iterable[str]) -> frozenset[str]:
        """Those arms, what they are compared with, and the control. Others drop out: every comparison is made within
        blocks that hold both its arms, so those that are settled keep theirs, and no other loses one."""
        needed = {str(arm) for arm in self._plan.arms if arm.control}
        for name in names:
            needed |= related(self._plan, name)
        needed |= {base for arm, base in self._plan.baselines if arm in needed}
        return frozenset(needed & self._able)

    def _mine(self, steps: Iterable[PlanStep]) -> tuple[PlanStep, ...]:
        return tuple(step for step in steps if str(step.arm) in self._able)

    def _repeat(self, samples: Sequence[Sample]) -> Block | None:
        """A block hit by a burst once more: the flagged runs and those that they are compared with, of a session of few
        rounds all that would share no block with them any more. Of a session of many machines none is: its number
        would be another's, too."""
        if self._plan.blocks or not self._plan.repeats:
            return None
        blocks = [item.block for item in samples if item.repeats is None]
        first = max(blocks, default=0) + 1
        if self._repeats is None:
            self._repeats = self._plan_repeats(samples, first)
        done = {(item.block, item.arm, item.point) for item in samples if item.repeats is not None}
        while self._repeats:
            block = self._repeats.pop(0)
            rest = tuple(step for step in block.steps if (step.block, str(step.arm), step.point) not in done)
            if rest:
                return replace(block, steps=self._whole(block.steps, rest))
        return None

    def _whole(self, steps: Sequence[PlanStep], rest: Sequence[PlanStep]) -> tuple[PlanStep, ...]:
        """Of a block what is left to be run. By turns that is all of a point: one that ran alone is none of them."""
        points = {step.point for step in rest}
        return tuple(rest if self._plan.slices is None else (step for step in steps if step.point in points))

    def _plan_repeats(self, samples: Sequence[Sample], first: int) -> list[Block]:
        bursts = find_bursts(samples)
        nature = own_nature(samples, bursts)
        bursts = {key: why for key, why in bursts.items() if key[:2] not in nature}
        hit = sorted({block for _, _, block in bursts})
        rounds = len({item.block for item in samples if item.kind == "measured" and item.repeats is None})
        planned = []
        for number, block in enumerate(hit[: max(1, round(REPEATS * rounds))], first):
            flagged = [(arm, point) for arm, point, where in bursts if where == block]
            wanted = {(name, point) for arm, point in flagged for name in related(self._plan, arm)}
            wanted |= _left_alone(samples, bursts, flagged)
            steps = [step for step in self._mine(self._plan.block(number)) if (str(step.arm), step.point) in wanted]
            reasons = ", ".join(f"{arm} {bursts[arm, point, block]}" for arm, point in flagged)
            if steps:
                repeated = tuple(replace(step, repeats=block) for step in steps)
                planned.append(Block(number, repeated, f"round {block} once more: {reasons}"))
        return planned


def _left_alone(
    samples: Iterable[Sample], bursts: Collection[tuple[str, str, int]], flagged: Iterable[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Arms, at their points, that have good runs but no block in common with a good run of one that is flagged: a
    ranking compares every two."""
    good: dict[tuple[str, str], set[int]] = {}
    for arm, point, block in _completed(samples) - set(bursts):
        good.setdefault((arm, point), set()).add(block)
    return {
        (arm, point)
        for (arm, point), blocks in good.items()
        if any(at == point and not blocks & good.get((other, at), set()) for other, at in flagged)
    }


def _completed(samples: Iterable[Sample]) -> set[tuple[str, str, int]]:
    return {(item.arm, item.point, item.block) for item in samples if item.kind == "measured" and item.status == "ok"}


def _done(samples: Iterable[Sample]) -> set[tuple[int, str, str]]:
    return {(item.block, item.arm, item.point) for item in samples if item.kind == "measured"}


def total_comparisons(runs: Runs, plan: Plan) -> tuple[Comparison, ...]:
    return compare(runs, plan.baselines, ("real",), whole=True)


def related(plan: Plan, name: str) -> set[str]:
    """An arm and all that it is compared with: baselines either way, its controls, and the ladders it stands on."""
    arms = [str(arm) for arm in plan.arms]
    found = {name}
    for arm, base in plan.baselines:
        if name in (arm, base):
            found |= {arm, base}
        chain = [rung for rung, _ in rungs(arm, base, arms)]
        if name in chain:
            found |= set(chain)
    return found
