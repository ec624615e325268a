"""The schedule: which block comes next, given what has been measured, and when a session ends. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from kit.analysis.burst import find_bursts, own_nature
from kit.analysis.columns import Runs
from kit.analysis.compare import Comparison, compare
from kit.analysis.ladder import rungs
from kit.analysis.ranking import Ranking, rank
from kit.model.plan import MOST_ROUNDS, SHARED_ROUNDS, Plan, PlanStep
from kit.model.sample import Sample

#: At most this share of a session's blocks is run again because of bursts: beyond it they are the machine's nature.
REPEATS = 0.25
#: An arm whose simultaneous interval lies above this ratio to the reference is run no more once the least rounds are
#: over: its exact penalty decides nothing.
MUCH_WORSE = 1.2


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
        # Interleaved rounds need no warm-up: root filesystems and inputs are read before, and all arms run at once.
        self._warm = plan.cache == "warm" and plan.interleave is None
        self._pending: Block | End | None = None
        self._repeats: list[Block] | None = None
        self._relations: dict[str, set[str]] = {}
        self._asked: tuple[float, int] | None = None  # seconds that were left, and runs of the block given then

    def least(self, samples: Sequence[Sample]) -> int:
        """The number of runs that are certain to come: what is left of the fixed rounds, and their warm-ups."""
        done = _done(samples)
        numbers = self._plan.blocks or range(1, self._plan.rounds + 1)
        steps = [step for number in numbers for step in self._mine(self._plan.block(number))]
        left = sum((step.block, str(step.arm), step.point) not in done for step in steps)
        return left + (len(self._mine(self._plan.block(0))) if left and self._warm else 0)

    def next(self, samples: Sequence[Sample], left: float | None = None, run_seconds: float = 0.0) -> Block | End:
        """Return the block to run now, or why there is none.

        ``left``: seconds that remain of ``plan.limit``, None without one. ``run_seconds``: what one run takes; once a
        block is over, what it took of the limit counts instead."""
        block, self._pending = self._pending or self._planned(samples), None
        ended = block if isinstance(block, End) else None
        if isinstance(block, End):
            repetition = self._repeat(samples)
            if repetition is None:
                return block
            block = repetition
        if self._warm:
            self._warm = False
            self._pending = block
            block = Block(0, self._mine(self._plan.block(0)))
        over = self._over(block, left, run_seconds)
        self._asked = None if left is None else (left, len(block.steps))
        if over and self._plan.until_decided and ended:
            return ended
        return over or block

    def _over(self, block: Block, left: float | None, run_seconds: float) -> End | None:
        """Why there is no time for this block; None where there is."""
        plan, repeated = self._plan, block.steps[0].repeats is not None
        if left is None or (plan.budget is None and block.number <= plan.rounds and not repeated):
            return None
        if self._asked and self._asked[0] > left:
            run_seconds = (self._asked[0] - left) / self._asked[1]
        if left > 0 and len(block.steps) * run_seconds <= left:
            return None
        if plan.until_decided:
            return End(f"the budget of {_minutes(plan.limit or 0.0)} is spent")
        if left <= 0:
            return End("the budget is over")
        return End(f"the budget does not last for {'a repetition' if repeated else f'round {block.number}'}")

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
        if not plan.open_ended:
            return frozenset(), f"{plan.rounds} round{'s' if plan.rounds > 1 else ''}, as planned"
        if number > MOST_ROUNDS:
            return frozenset(), f"{MOST_ROUNDS} rounds: the most that are made"
        if plan.until_decided:
            return self._until_decided(number, earlier)
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

    def _until_decided(self, number: int, earlier: Sequence[Sample]) -> tuple[frozenset[str], str]:
        """As ``_active``, for a session that ends when each arm has a verdict."""
        plan, rounds = self._plan, len({item.block for item in earlier if item.kind == "measured"})
        arms = [str(arm) for arm in plan.arms if str(arm) in self._able]
        rankings = rank(Runs(earlier), arms, margin=plan.margin, rounds=rounds)
        if not any(item.verdict for found in rankings for item in found.rows if item.against):
            if len([arm for arm in plan.arms if not arm.control and str(arm) in self._able]) < 2:
                return frozenset(), f"{rounds} rounds: one arm, nothing to compare it with"
            if rounds >= SHARED_ROUNDS:
                return frozenset(), f"{rounds} rounds: no two arms have two rounds in common"
            return self._able, f"round {number}: no two arms have two rounds in common yet"
        undecided = {row.arm for found in rankings for row in found.undecided}
        if not undecided:
            return frozenset(), _decided(rounds, rankings, plan.margin)
        dropped = _much_worse(rankings)
        for arm in undecided if dropped else ():
            dropped -= self._related(arm)
        reason = f"round {number}: {', '.join(sorted(undecided))} undecided"
        if dropped:
            much = f"more than {MUCH_WORSE - 1:.0%} worse than {rankings[0].reference}"
            reason += f"; without {', '.join(sorted(dropped))}: {much}"
        return self._able - dropped, reason

    def _related(self, name: str) -> set[str]:
        if name not in self._relations:
            self._relations[name] = related(self._plan, name)
        return self._relations[name]

    def _needed(self, names: Iterable[str]) -> frozenset[str]:
        """Those arms, what they are compared with, and the control. Others drop out: every comparison is made within
        blocks that hold both its arms, so those that are settled keep theirs, and no other loses one."""
        needed = {str(arm) for arm in self._plan.arms if arm.control}
        for name in names:
            needed |= self._related(name)
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
        return tuple(rest if self._plan.interleave is None else (step for step in steps if step.point in points))

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


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.3g} min" if seconds >= 60 else f"{seconds:.3g} s"


def _decided(rounds: int, rankings: Sequence[Ranking], margin: float) -> str:
    references = ", ".join(dict.fromkeys(found.reference for found in rankings))
    verdict = f"significantly different from {references} or equivalent within ±{100 * margin:.3g} %"
    return f"decided after {rounds} rounds: each arm is {verdict}"


def _much_worse(rankings: Sequence[Ranking]) -> set[str]:
    """The picks that are surely this much worse at every point. References never are."""
    found = [
        {row.arm for row in item.picks if row.against and (row.against.low_all or 0.0) > MUCH_WORSE}
        for item in rankings
    ]
    return set.intersection(*found)


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
