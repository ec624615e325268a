"""All statistics of a session: comparisons, ladders, noise floor, growth, drift, disturbances, other programs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.runs.arm_runs import ArmRuns, PointRuns, runs_by_point
from kit.analysis.runs.busy import BusyRounds, busy_rounds
from kit.analysis.runs.compare import Comparison, compare, not_comparable
from kit.analysis.runs.drift import Drift, drifts
from kit.analysis.runs.run_table import Runs
from kit.analysis.session.footprint import Footprint, footprints
from kit.analysis.session.ladder import Ladder, climb, whole_ladder
from kit.analysis.session.ranking import Ranking, rank
from kit.analysis.session.scaling import Growth, growths
from kit.analysis.session.stopping import looks
from kit.analysis.session.tasks import TaskCost, compare_tasks
from kit.analysis.stats.estimate import Interval
from kit.analysis.traces.calls import CallCosts, Overhead, compare_calls, overheads
from kit.model.fact import DEFAULT_REFERENCE
from kit.model.plan import DEFAULT_MARGIN
from kit.model.sample import Sample
from kit.model.session import Session

#: The share of a build's real time above which outside CPU is reported.
NOTABLE = 0.05


@dataclass(frozen=True)
class NoiseFloor:
    """The noise floor: two identical arms whose every difference is noise. Real time of the whole run."""

    arm: str
    baseline: str
    point: str
    ratio: float  # copy against original
    low: float | None  # 95 % interval of the ratio: low to high
    high: float | None
    n: int  # number of rounds
    #: The smallest penalty, as a ratio, that even the least sensitive comparison at that point detects with 80 % power.
    detectable: float | None

    @property
    def estimate(self) -> Interval:
        return Interval(self.ratio, self.low, self.high, self.n)


@dataclass(frozen=True)
class FlaggedRun:
    """A disturbed run, by the rule of disturbances; ``repeated`` if a rerun replaces it."""

    arm: str
    point: str
    round: int
    why: str
    repeated: bool


@dataclass(frozen=True)
class Unrepeated:
    """A comparison with its reruns, and without them, flagged runs included. Real time of the whole run."""

    found: Comparison
    without: Comparison

    @property
    def differs(self) -> bool:
        """Return whether one ratio lies outside the other's interval, or the verdicts differ: reruns caused the
        difference."""
        with_reruns, without = self.found, self.without
        if with_reruns.verdict_all != without.verdict_all:
            return True
        ratios = with_reruns.estimate, without.estimate
        return any(here and there and there.leaves_out(here.estimate) for here, there in (ratios, reversed(ratios)))


@dataclass(frozen=True)
class Analysis:
    comparisons: tuple[Comparison, ...]
    ladders: tuple[Ladder, ...]
    growths: tuple[Growth, ...]
    floors: tuple[NoiseFloor, ...]
    drifts: tuple[Drift, ...]
    flagged: tuple[FlaggedRun, ...]
    unlike: tuple[str, ...]  # why runs were not compared although both succeeded
    runs: Runs
    points: tuple[PointRuns, ...]  # the same runs, for those who show them
    rankings: tuple[Ranking, ...]  # one for each point
    unrepeated: tuple[Unrepeated, ...]  # empty where nothing was repeated
    tasks: tuple[TaskCost, ...]  # empty where no build tool has recorded any
    calls: tuple[CallCosts, ...] = ()  # empty where nothing was traced, as the next
    overheads: tuple[Overhead, ...] = ()
    footprints: tuple[Footprint, ...] = ()  # empty where no arm takes much more than the reference
    busy: tuple[BusyRounds, ...] = ()  # empty where no other program is known to have used much CPU

    def arm(self, arm: str, point: str) -> ArmRuns:
        return ArmRuns(self.runs, arm, point)

    @property
    def arms(self) -> tuple[ArmRuns, ...]:
        """Return the arms that ran, by point."""
        return tuple(arm for point in self.points for arm in point.arms)

    @property
    def margin(self) -> float:
        """Return the session's margin of equivalence."""
        return self.rankings[0].margin if self.rankings else DEFAULT_MARGIN

    def ladder(self, arm: str, point: str, cost: str = "real") -> Ladder | None:
        """Return the ladder of the whole run."""
        return whole_ladder([ladder for ladder in self.ladders if (ladder.arm, ladder.point) == (arm, point)], cost)

    @property
    def whole_ladders(self) -> tuple[Ladder, ...]:
        """Return the ladder of real time of each arm and point that has one."""
        keys = dict.fromkeys((ladder.arm, ladder.point) for ladder in self.ladders)
        return tuple(ladder for key in keys if (ladder := self.ladder(*key)))

    @property
    def outside_cpu(self) -> tuple[Comparison, ...]:
        """Return the comparisons of outside CPU whose simultaneous interval lies above NOTABLE of the build's real
        time."""
        wholes = {(comparison.arm, comparison.point, comparison.phase) for comparison in whole_real(self.comparisons)}
        notable = []
        for comparison in self.comparisons:
            if comparison.metric == "outside" and (comparison.arm, comparison.point, comparison.phase) in wholes:
                real = self.arm(comparison.arm, comparison.point).mean(comparison.phase, "real")
                if real is not None and (comparison.difference_low_all or 0) > NOTABLE * real:
                    notable.append(comparison)
        return tuple(notable)

    @property
    def least_rounds(self) -> int:
        """Return the least number of rounds of any figure: comparisons, ladders, outside CPU."""
        compared = [comparison for comparison in whole_real(self.comparisons) if not comparison.control]
        counts = [comparison.n for comparison in (*compared, *self.outside_cpu)]
        counts += [steps.n for comparison in compared if (steps := self.ladder(comparison.arm, comparison.point))]
        return min(counts, default=0)

    @property
    def narrowing(self) -> tuple[str, float] | None:
        """Return the covariate of real time, and the mean share by which it narrows intervals; None without a
        covariate."""
        used = [
            comparison
            for comparison in whole_real(self.comparisons)
            if comparison.covariate and comparison.narrowing is not None
        ]
        return (
            (used[0].covariate, sum(comparison.narrowing or 0.0 for comparison in used) / len(used)) if used else None
        )


def analyse(session: Session, metric: str = "", reference: str = "") -> Analysis:
    """Return all statistics of a session. Takes a few seconds for a million samples. ``metric`` and ``reference``: the
    ranking's metric and reference arm; ``ranking`` chooses them if empty. Raises UsageError if one of them is missing.
    """
    runs = Runs(session.samples)
    rounds = looks(session)
    comparisons = compare(runs, session.baselines, looks=rounds)
    rankings = rank(
        runs, session.arms, metric, reference, session.request.margin, rounds, DEFAULT_REFERENCE.text(session.facts),
        session.baselines,
    )  # fmt: skip
    marked = [sample for sample in session.samples if sample.flags or sample.rerun_of is not None]
    return Analysis(
        comparisons,
        climb(runs, session.baselines, session.arms),
        growths(runs, session.baselines),
        tuple(_floors(comparisons)),
        drifts(runs, session.baselines),
        _flagged(marked),
        not_comparable(runs, session.baselines),
        runs,
        runs_by_point(runs, session.arms),
        rankings,
        _unrepeated(session, comparisons, rounds) if any(sample.rerun_of is not None for sample in marked) else (),
        compare_tasks(runs, session.baselines, session.request.params),
        compare_calls(session.samples, runs, session.baselines),
        overheads(session.samples, runs),
        tuple(footprints(runs, session.arms, rankings, session.baselines)),
        busy_rounds(session),
    )


def rank_so_far(session: Session) -> tuple[Ranking, ...]:
    """Return the rankings of a running session. Other statistics are left out, since the next run waits."""
    return rank(
        Runs(session.samples), session.arms, margin=session.request.margin, rounds=looks(session),
        default_reference=DEFAULT_REFERENCE.text(session.facts), baselines=session.baselines, with_best=False,
    )  # fmt: skip


def whole_real(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return the comparisons of the whole run's real time, one for each arm and point."""
    reals = [comparison for comparison in comparisons if comparison.metric == "real"]
    last = {(comparison.arm, comparison.point): comparison.phase for comparison in reals}  # the total comes last
    return tuple(comparison for comparison in reals if comparison.phase == last[comparison.arm, comparison.point])


def detectable(comparisons: Sequence[Comparison], point: str | None = None) -> tuple[float, ...]:
    """Return the smallest penalties that the arms' comparisons at that point detect with 80 % power, by size. Real time
    of the whole run, with the intervals of verdicts. A control has no verdict."""
    counted = (
        comparison
        for comparison in whole_real(comparisons)
        if not comparison.control and point in (None, comparison.point)
    )
    return tuple(sorted(comparison.detectable for comparison in counted if comparison.detectable))


def _floors(comparisons: tuple[Comparison, ...]) -> list[NoiseFloor]:
    return [
        NoiseFloor(
            comparison.arm, comparison.baseline, comparison.point, comparison.ratio, comparison.low, comparison.high,
            comparison.n, max(detectable(comparisons, comparison.point), default=None),
        )
        for comparison in whole_real(comparisons)
        if comparison.control and comparison.ratio is not None
    ]  # fmt: skip


def _unrepeated(session: Session, comparisons: tuple[Comparison, ...], rounds: int) -> tuple[Unrepeated, ...]:
    runs = Runs(session.samples, repetitions=False)
    planned = compare(runs, session.baselines, ("real",), whole=True, looks=rounds)
    before = {(comparison.arm, comparison.baseline, comparison.point): comparison for comparison in planned}
    pairs = (
        (comparison, before.get((comparison.arm, comparison.baseline, comparison.point)))
        for comparison in whole_real(comparisons)
    )
    return tuple(Unrepeated(comparison, other) for comparison, other in pairs if other and not comparison.control)


def _flagged(marked: Sequence[Sample]) -> tuple[FlaggedRun, ...]:
    repetitions = [run for run in marked if run.rerun_of is not None and run.status == "ok"]
    repeated = {(run.arm, run.point, run.rerun_of) for run in repetitions}
    return tuple(
        FlaggedRun(run.arm, run.point, run.round, run.flags, (run.arm, run.point, run.round) in repeated)
        for run in marked
        if run.flags
    )
