"""The schedule: the next round, given the samples so far, and the end of a session. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kit.analysis.runs.compare import Comparison, compare
from kit.analysis.runs.disturbance import find_bursts, own_nature
from kit.analysis.runs.run_table import Runs
from kit.analysis.session.ladder import rungs
from kit.analysis.session.ranking import Ranking, racing, rank
from kit.core.quantity import shown_duration
from kit.model.plan import MOST_ROUNDS, SHARED_ROUNDS, Plan, PlanStep
from kit.model.sample import TRACED, Sample
from kit.model.session import Session

#: An arm whose simultaneous interval lies above this ratio to the reference drops out as soon as it has an interval:
#: its exact penalty changes no decision.
MUCH_WORSE, FIRST_INTERVAL = 1.2, 2
#: Arms with their points, and why they fail.
Failing = Mapping[tuple[str, str], str]
#: Runs of an arm that all fail in the same way before it is run no more: its first ones, a warm-up included.
GIVE_UP = 2
EVERY_ARM_FAILED = "every arm failed"


@dataclass(frozen=True)
class Round:
    """Runs to make one after the other, in this order. ``reason``: why, in words, unless the plan gives the reason."""

    number: int
    steps: tuple[PlanStep, ...]
    reason: str = ""


@dataclass(frozen=True)
class End:
    """The session is complete. ``reason`` names the rule."""

    reason: str


class Schedule:
    """Gives rounds one by one; also continues a stopped session from its samples alone.

    ``able``: the arms that can run here. ``default_reference``: the ranking's reference, provided that it runs. Call
    ``next`` again after every round, with all samples so far."""

    def __init__(self, plan: Plan, able: Iterable[str], default_reference: str = "") -> None:
        self._plan = plan
        self._default_reference = default_reference
        self._able = frozenset(able)
        self._number = 0
        # Interleaved rounds need no warm-up: root filesystems and inputs are read before, and all arms run together.
        self._warm = plan.cache == "warm" and plan.interleave is None
        self._pending: Round | End | None = None
        self._repeats: list[Round] | None = None
        self._failing: Failing = {}  # the arms, at their points, that are run no more
        self._asked: tuple[float, int] | None = None  # seconds that were left, and runs of the round given then

    def least(self, samples: Sequence[Sample]) -> int:
        """Return the number of runs to come: the rest of the fixed rounds, and their warm-ups. An arm that proves much
        worse has fewer."""
        measured, self._failing = _done(samples), self._find_failing(samples)
        numbers = self._plan.assigned or range(1, self._plan.rounds + 1)
        steps = [step for number in numbers for step in self._mine(self._plan.round(number))]
        missing_runs = sum((step.round, str(step.arm), step.point) not in measured for step in steps)
        return missing_runs + (len(self._mine(self._plan.round(0))) if missing_runs and self._warm else 0)

    def next(self, samples: Sequence[Sample], left: float | None = None, run_seconds: float = 0.0) -> Round | End:
        """Return the round to run now, or the end of the session.

        ``left``: remaining seconds of ``plan.limit``, None without a limit. ``run_seconds``: duration of one run; after
        a round, the round's share of the limit counts instead."""
        round_, self._pending = self._pending or self._planned(samples), None
        ended = round_ if isinstance(round_, End) else None
        if isinstance(round_, End):
            repetition = self._repeat(samples)
            if repetition is None:
                return round_
            round_ = repetition
        if self._warm:
            self._warm = False
            self._pending = round_
            round_ = Round(0, self._mine(self._plan.round(0)))
        over = self._over(round_, left, run_seconds)
        self._asked = None if left is None else (left, len(round_.steps))
        if over and self._plan.until_decided and ended:
            return ended
        return over or round_

    def _over(self, round_: Round, left: float | None, run_seconds: float) -> End | None:
        """Return the end if there is no time for this round, else None."""
        plan, repeated = self._plan, round_.steps[0].rerun_of is not None
        if left is None or (plan.budget is None and round_.number <= plan.rounds and not repeated):
            return None
        if self._asked and self._asked[0] > left:
            run_seconds = (self._asked[0] - left) / self._asked[1]
        if left > 0 and len(round_.steps) * run_seconds <= left:
            return None
        if plan.until_decided:
            return End(f"the budget of {shown_duration(plan.limit or 0.0)} is spent")
        if left <= 0:
            return End("the budget is over")
        return End(f"the budget is too short for {'a rerun' if repeated else f'round {round_.number}'}")

    def _planned(self, samples: Sequence[Sample]) -> Round | End:
        """Return the next unfinished round, or the end of the plan."""
        measured = _done(samples)
        while True:
            number = self._number + 1
            earlier = [sample for sample in samples if sample.round < number and sample.rerun_of is None]
            self._failing = self._find_failing(earlier)
            active, reason = self._active(number, earlier)
            if not active:
                return End(reason)
            self._number = number
            if self._plan.assigned and number not in self._plan.assigned:
                continue
            steps = [step for step in self._mine(self._plan.round(number)) if str(step.arm) in active]
            missing_steps = tuple(step for step in steps if (number, str(step.arm), step.point) not in measured)
            if missing_steps:
                return Round(number, self._whole(steps, missing_steps), reason)

    def _find_failing(self, samples: Sequence[Sample]) -> Failing:
        """Return the arms that are run no more. A round that machines share is complete or missing: it has all arms."""
        return {} if self._plan.assigned else find_failing(samples)

    @property
    def _running(self) -> frozenset[str]:
        """Return the arms that can run here, without those that fail at every point."""
        return frozenset(arm for arm in self._able if any((arm, at) not in self._failing for at in self._plan.points))

    def _active(self, number: int, earlier: Sequence[Sample]) -> tuple[frozenset[str], str]:
        """Return the arms of this round and the reason; no arms: the reason for the end."""
        plan = self._plan
        if not self._running:
            return frozenset(), EVERY_ARM_FAILED
        if number <= plan.rounds:
            return self._least_round(number, earlier)
        if not plan.open_ended:
            return frozenset(), f"{plan.rounds} round{'s' if plan.rounds > 1 else ''}, as planned"
        if number > MOST_ROUNDS:
            return frozenset(), f"{MOST_ROUNDS} rounds: the maximum"
        if plan.until_decided:
            return self._until_decided(number, earlier)
        if plan.precision is None:
            return self._running, "the budget lasts"
        # An interval that has just become narrow is so partly by luck, and covers the truth less often than stated. A
        # decision without the latest round dilutes that luck (Hall 1981 continues after stopping for the same reason).
        runs = Runs(sample for sample in earlier if sample.round < number - 1)
        unsettled = [comparison for comparison in total_comparisons(runs, plan) if comparison.reach > plan.precision]
        unsettled = [comparison for comparison in unsettled if not comparison.control]
        names = {comparison.arm for comparison in unsettled}
        if not names:
            return frozenset(), f"every interval was within ±{plan.precision:.2%} of its ratio one round ago".replace(
                ".00", ""
            )
        widest = max(unsettled, key=lambda comparison: comparison.reach)
        reason = f"round {number}: {', '.join(sorted(names))} not within ±{plan.precision:.1%} yet"
        return self._needed(names), f"{reason}; widest: {widest.arm} ±{widest.reach:.1%}"

    def _least_round(self, number: int, earlier: Sequence[Sample]) -> tuple[frozenset[str], str]:
        """Return the same as ``_active``, for a round that comes in any case: with every arm, but for one that is much
        worse already."""
        far = _much_worse(self._ranked(earlier)) if self._plan.until_decided and number > FIRST_INTERVAL else {}
        return self._running - set(far), f"round {number}: {_without_far(far)}" if far else ""

    def _ranked(self, earlier: Sequence[Sample]) -> tuple[Ranking, ...]:
        arms = [str(arm) for arm in self._plan.arms if str(arm) in self._running]
        rounds = len({sample.round for sample in earlier if sample.kind == "measured"})
        return rank(
            Runs(earlier), arms, margin=self._plan.margin, rounds=rounds, default_reference=self._default_reference,
            baselines=self._plan.baselines, with_best=False,
        )  # fmt: skip

    def _until_decided(self, number: int, earlier: Sequence[Sample]) -> tuple[frozenset[str], str]:
        """Return the same as ``_active``, for a session that ends when each arm has a verdict."""
        plan, rounds = self._plan, len({sample.round for sample in earlier if sample.kind == "measured"})
        rankings = self._ranked(earlier)
        if not any(row.verdict for ranking in rankings for row in ranking.rows if row.against):
            if len([arm for arm in plan.arms if not arm.control and str(arm) in self._running]) < 2:
                return frozenset(), f"{rounds} rounds: one arm, nothing to compare it with"
            if rounds >= SHARED_ROUNDS:
                return frozenset(), f"{rounds} rounds: no two arms have two rounds in common"
            return self._running, f"round {number}: no two arms have two rounds in common yet"
        undecided = {row.arm for ranking in rankings for row in ranking.undecided}
        if not undecided:
            return frozenset(), _decided(rounds, rankings, plan.margin)
        far, arms = _much_worse(rankings), racing(rankings, plan.baselines) & self._running
        reasons = [f"{', '.join(sorted(undecided))} undecided", _without_far(far)]
        if decided := self._running - arms - set(far):
            reasons.append(f"without {', '.join(sorted(decided))}: decided")
        return arms, f"round {number}: {'; '.join(filter(None, reasons))}"

    def _needed(self, names: Iterable[str]) -> frozenset[str]:
        """Return those arms, the arms that they are compared with, and the controls. Other arms drop out without loss:
        every comparison uses only rounds with both its arms."""
        needed = {str(arm) for arm in self._plan.arms if arm.control}
        for name in names:
            needed |= related(self._plan, name)
        needed |= {base for arm, base in self._plan.baselines if arm in needed}
        return frozenset(needed & self._running)

    def _mine(self, steps: Iterable[PlanStep]) -> tuple[PlanStep, ...]:
        """Return the steps of arms that can run here, without those that fail each time."""
        able = (step for step in steps if str(step.arm) in self._able)
        return tuple(step for step in able if (str(step.arm), step.point) not in self._failing)

    def _repeat(self, samples: Sequence[Sample]) -> Round | None:
        """Return a rerun of a disturbed round, or None. The rerun contains the flagged runs and the runs that they are
        compared with. In a session of few rounds it also contains every run that would otherwise share no round with
        them. Each rerun happens once, as long as the budget lasts. A session of several machines has none: its number
        would also be another machine's."""
        if self._plan.assigned or not self._plan.rerun:
            return None
        rounds = [sample.round for sample in samples if sample.rerun_of is None]
        first = max(rounds, default=0) + 1
        if self._repeats is None:
            self._repeats = self._plan_repeats(samples, first)
        rerun = {(sample.round, sample.arm, sample.point) for sample in samples if sample.rerun_of is not None}
        while self._repeats:
            round_ = self._repeats.pop(0)
            missing_steps = tuple(step for step in round_.steps if (step.round, str(step.arm), step.point) not in rerun)
            if missing_steps:
                return replace(round_, steps=self._whole(round_.steps, missing_steps))
        return None

    def _whole(self, steps: Sequence[PlanStep], rest: Sequence[PlanStep]) -> tuple[PlanStep, ...]:
        """Return the rest of a round. Interleaved, this is every step of a point: a run without the others is not
        interleaved."""
        points = {step.point for step in rest}
        return tuple(rest if self._plan.interleave is None else (step for step in steps if step.point in points))

    def _plan_repeats(self, samples: Sequence[Sample], first: int) -> list[Round]:
        self._failing = find_failing(samples, 1)  # a failure needs no second run because others were disturbed
        bursts = find_bursts(samples)
        nature = own_nature(samples, bursts)
        bursts = {key: why for key, why in bursts.items() if key[:2] not in nature}
        hit = sorted({round_ for _, _, round_ in bursts})
        planned = []
        for number, round_ in enumerate(hit, first):
            flagged = [(arm, point) for arm, point, where in bursts if where == round_]
            rerun_keys = {(name, point) for arm, point in flagged for name in related(self._plan, arm)}
            rerun_keys |= _left_alone(samples, bursts, flagged)
            steps = [step for step in self._mine(self._plan.round(number)) if (str(step.arm), step.point) in rerun_keys]
            reasons = ", ".join(f"{arm} {bursts[arm, point, round_]}" for arm, point in flagged)
            if steps:
                repeated = tuple(replace(step, rerun_of=round_) for step in steps)
                planned.append(Round(number, repeated, f"rerun of round {round_}: {reasons}"))
        return planned


def find_failing(samples: Iterable[Sample], least: int = GIVE_UP) -> Failing:
    """Return the arms, with their points, that have failed in each of their runs, ``least`` or more and always in the
    same way, and the first line of their error. Reruns and traced runs do not count."""
    runs: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        if sample.rerun_of is None and sample.kind != TRACED:
            runs.setdefault((sample.arm, sample.point), []).append(sample)
    failing = {}
    for where, arm_runs in runs.items():
        errors = {sample.error.partition("\n")[0] if sample.status != "ok" else None for sample in arm_runs}
        if len(arm_runs) >= least and len(errors) == 1 and (error := errors.pop()) is not None:
            failing[where] = error
    return failing


def _left_alone(
    samples: Iterable[Sample], bursts: Collection[tuple[str, str, int]], flagged: Iterable[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Return the arms, at their points, whose good runs share no round with a good run of a flagged arm: a ranking
    compares every two arms."""
    good: dict[tuple[str, str], set[int]] = {}
    for arm, point, round_ in _completed(samples) - set(bursts):
        good.setdefault((arm, point), set()).add(round_)
    return {
        (arm, point)
        for (arm, point), rounds in good.items()
        if any(at == point and not rounds & good.get((other, at), set()) for other, at in flagged)
    }


def _decided(rounds: int, rankings: Sequence[Ranking], margin: float) -> str:
    references = ", ".join(dict.fromkeys(ranking.reference for ranking in rankings))
    verdict = f"significantly different from {references} or equivalent within ±{100 * margin:.3g} %"
    return f"decided after {rounds} rounds: each arm is {verdict}"


def _much_worse(rankings: Sequence[Ranking]) -> dict[str, str]:
    """Return the arms that are significantly worse by this factor at every point, each with what it is compared with.
    References never are."""
    worse = [
        {
            row.arm: row.against.other
            for row in ranking.picks
            if row.against and (row.against.ratio.together.low or 0.0) > MUCH_WORSE
        }
        for ranking in rankings
    ]
    return {arm: other for arm, other in worse[0].items() if all(arm in each for each in worse)} if worse else {}


def _without_far(far: Mapping[str, str]) -> str:
    much = f"more than {100 * (MUCH_WORSE - 1):.0f} % worse than {', '.join(sorted(set(far.values())))}"
    return f"without {', '.join(sorted(far))}: {much}" if far else ""


def _completed(samples: Iterable[Sample]) -> set[tuple[str, str, int]]:
    completed = (sample for sample in samples if sample.kind == "measured" and sample.status == "ok")
    return {(sample.arm, sample.point, sample.round) for sample in completed}


def _done(samples: Iterable[Sample]) -> set[tuple[int, str, str]]:
    return {(sample.round, sample.arm, sample.point) for sample in samples if sample.kind == "measured"}


def total_comparisons(runs: Runs, plan: Plan) -> tuple[Comparison, ...]:
    return compare(runs, plan.baselines, ("real",), whole=True)


def related(plan: Plan, name: str) -> set[str]:
    """Return an arm and all arms that it is compared with: baselines in both directions, its controls, and its
    ladders."""
    arms = [str(arm) for arm in plan.arms]
    related_arms = {name}
    for arm, base in plan.baselines:
        if name in (arm, base):
            related_arms |= {arm, base}
        chain = [rung for rung, _ in rungs(arm, base, arms)]
        if name in chain:
            related_arms |= set(chain)
    return related_arms


def whole_rounds(session: Session, plan: Plan) -> set[int]:
    """Return the rounds of which the session has every run."""
    able = {str(arm) for arm in plan.arms} - {blocked_arm.arm for blocked_arm in session.not_run}
    failing = {} if plan.assigned else find_failing(session.samples)
    needed_runs = {(arm, point) for arm in able for point in plan.points} - set(failing)
    runs_by_round: dict[int, set[tuple[str, str]]] = {}
    for sample in session.samples:
        if sample.kind == "measured":
            runs_by_round.setdefault(sample.round, set()).add((sample.arm, sample.point))
    return {number for number, complete_runs in runs_by_round.items() if complete_runs >= needed_runs}
