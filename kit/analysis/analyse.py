"""Everything that a session says: comparisons, ladders, noise floor, growth, drift, bursts, other programs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.busy import BusyRounds, busy_rounds
from kit.analysis.calls import CallCosts, Overhead, compare_calls, overheads
from kit.analysis.columns import Runs
from kit.analysis.compare import Comparison, compare, not_comparable
from kit.analysis.drift import Drift, drifts
from kit.analysis.growth import Growth, growths
from kit.analysis.ladder import Ladder, climb
from kit.analysis.ranking import Ranking, rank
from kit.analysis.stopping import looks, widening
from kit.analysis.tasks import TaskCost, compare_tasks
from kit.model.sample import Sample
from kit.model.session import Session


@dataclass(frozen=True)
class Floor:
    """The noise floor: two identical arms, of which every difference is noise.

    ``ratio`` with ``low`` and ``high``: copy against original, real time of the whole run, 95 % interval over ``n``
    blocks. ``detectable``: the smallest penalty, as a ratio, that each comparison of an arm at that point finds
    significant among all of them with 80 % power: that of the one which needs most.
    """

    arm: str
    baseline: str
    point: str
    ratio: float
    low: float | None
    high: float | None
    n: int
    detectable: float | None


@dataclass(frozen=True)
class FlaggedRun:
    """A run that something outside hit, by the burst rule; ``repeated`` if another stands in its place."""

    arm: str
    point: str
    block: int
    why: str
    repeated: bool


@dataclass(frozen=True)
class Unrepeated:
    """A comparison with its repetitions, and as it would be without any, flagged runs and all. Real time of the whole
    run."""

    found: Comparison
    without: Comparison

    @property
    def differs(self) -> bool:
        """True where one ratio lies outside the other's interval, or the verdict is another: repetitions made it."""
        one, two = self.found, self.without
        if one.verdict_all != two.verdict_all:
            return True
        return any(
            here.ratio is not None and there.low is not None and there.high is not None
            and not there.low <= here.ratio <= there.high
            for here, there in ((one, two), (two, one))
        )  # fmt: skip


@dataclass(frozen=True)
class Analysis:
    comparisons: tuple[Comparison, ...]
    ladders: tuple[Ladder, ...]
    growths: tuple[Growth, ...]
    floors: tuple[Floor, ...]
    drifts: tuple[Drift, ...]
    flagged: tuple[FlaggedRun, ...]
    unlike: tuple[str, ...]  # why runs were not compared although both succeeded
    runs: Runs
    rankings: tuple[Ranking, ...]  # one for each point
    unrepeated: tuple[Unrepeated, ...]  # empty where nothing was repeated
    tasks: tuple[TaskCost, ...]  # empty where no build tool has recorded any
    calls: tuple[CallCosts, ...] = ()  # empty where nothing was traced, as the next
    overheads: tuple[Overhead, ...] = ()
    busy: tuple[BusyRounds, ...] = ()  # empty where no other program is known to have used much CPU


def analyse(session: Session, metric: str = "", reference: str = "") -> Analysis:
    """All statistics of a session. Takes a few seconds for a million samples. ``metric`` and ``reference``: what the
    ranking is by, and the arm that the others are ranked against; kit.analysis.ranking chooses where they are empty.
    Raises UsageError where one of them is not there."""
    runs = Runs(session.samples)
    rounds = looks(session)
    comparisons = compare(runs, session.baselines, widening=widening(rounds))
    marked = [item for item in session.samples if item.flags or item.repeats is not None]
    return Analysis(
        comparisons,
        climb(runs, session.baselines, session.arms),
        growths(runs, session.baselines),
        tuple(_floors(comparisons)),
        drifts(runs, session.baselines),
        _flagged(marked),
        not_comparable(runs, session.baselines),
        runs,
        rank(runs, session.arms, metric, reference, session.request.margin, rounds),
        _unrepeated(session, comparisons, widening(rounds)) if any(item.repeats is not None for item in marked) else (),
        compare_tasks(runs, session.baselines),
        compare_calls(session.samples, runs, session.baselines),
        overheads(session.samples, runs),
        busy_rounds(session),
    )


def whole_real(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Real time of the whole run, one comparison for each arm and point."""
    reals = [item for item in comparisons if item.metric == "real"]
    last = {(item.arm, item.point): item.phase for item in reals}  # the total comes last
    return tuple(item for item in reals if item.phase == last[item.arm, item.point])


def detectable(comparisons: Sequence[Comparison], point: str | None = None) -> tuple[float, ...]:
    """Return the smallest penalties that the comparisons of arms, at that point, find significant with 80 % power by
    the intervals of verdicts: real time of the whole run, in order of size. A control has no verdict."""
    counted = (item for item in whole_real(comparisons) if not item.control and point in (None, item.point))
    return tuple(sorted(item.detectable for item in counted if item.detectable))


def _floors(comparisons: tuple[Comparison, ...]) -> list[Floor]:
    return [
        Floor(
            item.arm, item.baseline, item.point, item.ratio, item.low, item.high, item.n,
            max(detectable(comparisons, item.point), default=None),
        )
        for item in whole_real(comparisons)
        if item.control and item.ratio is not None
    ]  # fmt: skip


def _unrepeated(session: Session, comparisons: tuple[Comparison, ...], inflation: float) -> tuple[Unrepeated, ...]:
    runs = Runs(session.samples, repetitions=False)
    planned = compare(runs, session.baselines, ("real",), whole=True, widening=inflation)
    before = {(item.arm, item.baseline, item.point): item for item in planned}
    found = ((item, before.get((item.arm, item.baseline, item.point))) for item in whole_real(comparisons))
    return tuple(Unrepeated(item, other) for item, other in found if other and not item.control)


def _flagged(marked: Sequence[Sample]) -> tuple[FlaggedRun, ...]:
    repetitions = [item for item in marked if item.repeats is not None and item.status == "ok"]
    repeated = {(item.arm, item.point, item.repeats) for item in repetitions}
    return tuple(
        FlaggedRun(item.arm, item.point, item.block, item.flags, (item.arm, item.point, item.block) in repeated)
        for item in marked
        if item.flags
    )
