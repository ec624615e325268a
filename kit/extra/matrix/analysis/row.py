"""A row of the matrix: one scenario, from the newest session of one machine that has each arm. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kit.analysis.runs.compare import Comparison, compare
from kit.analysis.runs.run_table import Runs
from kit.analysis.session.footprint import SPACE, WRITTEN
from kit.analysis.session.ranking import Ranking, RankRow, rank, split_picks
from kit.analysis.session.stopping import looks
from kit.analysis.stats.estimate import NOT_RUN, ONE_ROUND, REFERENCE
from kit.analysis.stats.estimators import Centre, log_centre, mean_centre
from kit.core.errors import UsageError
from kit.extra.matrix.analysis.cell import MatrixCell, more_than
from kit.model.arm import PLAIN
from kit.model.session import Session
from kit.model.sweep import COPIES, Values, parse_point, with_copies

#: Placements without a container, which are the baseline of what a container costs.
_Beside = Mapping[tuple[str, str, str], Comparison]


@dataclass(frozen=True)
class MatrixRow:
    """One scenario, or one point of its sweep: all arms against the reference."""

    scenario: str
    point: str  # with the number of copies that ran at once, swept or not: they are other work than one
    metric: str
    cells: tuple[MatrixCell, ...]  # one for each arm
    machines: int = 1  # number of machines that are pooled; 1 for a session of one machine
    weight: float = 1.0  # in the means; the points of a sweep share that of their scenario
    counts: bool = True  # whether it is part of the means
    params: Values = ()  # all other parameters of the newest session

    def cell(self, arm: str) -> MatrixCell | None:
        return next((cell for cell in self.cells if cell.arm == arm), None)


def rows_of(sessions: Sequence[Session], reference: str, metric: str, margin: float) -> list[MatrixRow]:
    """Return a row for each point of a scenario's newest session that has the reference. ``sessions``: the newest
    first; an older one adds the arms that the newer ones have not measured. ``metric``: '' for durable time, or real
    time where that was not measured."""
    rows: list[MatrixRow] = []
    for session in sessions:
        by_point = {row.point: row for row in _rows(session, reference, metric, margin)}
        rows = [_filled(row, by_point.get(row.point)) for row in rows] if rows else list(by_point.values())
    return rows


def _filled(row: MatrixRow, older: MatrixRow | None) -> MatrixRow:
    """Return the row with what an older session has measured and it has not."""
    if older is None or older.metric != row.metric:
        return row
    by_arm = {cell.arm: cell for cell in row.cells}
    base = next((cell.seconds for cell in row.cells if cell.verdict == REFERENCE), None)
    for cell in older.cells:
        newer = by_arm.get(cell.arm)
        if newer is None or (cell.measured and not newer.measured and newer.verdict != REFERENCE):
            by_arm[cell.arm] = replace(cell, seconds=_sum(base, cell.more))
    return replace(row, cells=tuple(by_arm.values()))


def _sum(base: Centre | None, more: Centre | None) -> Centre | None:
    """Return the reference's seconds of one session, and what an arm of another takes more: totals of one row then
    differ by what is said of the arms. The sessions are independent."""
    if base is None or more is None:
        return None
    has_errors = base.error is not None and more.error is not None
    error = math.hypot(base.error or 0.0, more.error or 0.0) if has_errors else None
    return Centre(base.estimate + more.estimate, error, min(base.degrees, more.degrees), more.n)


def _rows(session: Session, reference: str, metric: str, margin: float) -> Iterator[MatrixRow]:
    runs = Runs(session.samples)
    if not runs.ran(reference):
        return
    rounds = looks(session)
    try:
        rankings = rank(runs, session.arms, metric, reference, margin, rounds, baselines=session.baselines)
    except UsageError:  # the metric was not measured
        return
    pairs = [(arm, reference) for arm in session.arms if arm != reference]
    metrics = tuple({ranking.metric for ranking in rankings})
    beside = tuple({*metrics, SPACE, WRITTEN})
    to_reference = _index(compare(runs, pairs, beside, whole=True, looks=rounds))
    picks, _ = split_picks(session.arms)
    for ranking in rankings:
        cells = [_cell(row, ranking, runs, to_reference, session.id) for row in ranking.rows if _is_shown(row)]
        listed = {cell.arm for cell in cells}
        cells += [_missing(arm, session, runs, reference) for arm in picks if arm not in listed]
        point = with_copies(ranking.point, session.request.params)
        params = set_beside(point, session.request.params)
        yield MatrixRow(session.title, point, ranking.metric, tuple(cells), params=params)


def set_beside(point: str, params: Values) -> Values:
    """Return the parameters of a session that its point does not name."""
    point_names = {*parse_point(point), COPIES}
    return tuple((name, text) for name, text in params if name not in point_names)


def plain_pairs(session: Session) -> list[tuple[str, str]]:
    """Return the arms whose baseline is no container, with it."""
    return [(arm, base) for arm, base in session.baselines if base.startswith(PLAIN)]


def _is_shown(row: RankRow) -> bool:
    return row.pick or row.against is None


def _index(comparisons: Sequence[Comparison]) -> _Beside:
    return {
        (comparison.arm, comparison.point, comparison.metric): comparison
        for comparison in comparisons
        if not comparison.control
    }


def _cell(row: RankRow, ranking: Ranking, runs: Runs, to_reference: _Beside, session: str) -> MatrixCell:
    seconds = _seconds(runs, row.arm, ranking)
    bare = next((cost for cost in ranking.costs if cost.arm == row.arm), None)
    floor = row.against.floor if row.against else max((pair.floor for pair in ranking.pairs), default=0.0)
    cell = MatrixCell(
        row.arm, row.verdict, bare=bare.centre if bare else None, seconds=seconds, floor=floor, n=row.n, session=session
    )
    if row.against is None:
        return cell
    against = row.against
    time = log_centre(against.ratio, against.degrees)
    base = _seconds(runs, ranking.reference, ranking)
    more, space, written = (
        to_reference.get((row.arm, ranking.point, metric)) for metric in (ranking.metric, SPACE, WRITTEN)
    )
    return replace(
        cell,
        verdict=row.verdict or ONE_ROUND,
        time=time,
        together=against.ratio.together,
        visible=against.ratio.visible,
        space=space.centre if space else None,
        written=written.centre if written else None,
        seconds=replace(seconds, estimate=base.estimate + more.difference) if seconds and base and more else seconds,
        more=more_than(more),
        n=against.ratio.n,
    )


def _seconds(runs: Runs, arm: str, ranking: Ranking) -> Centre | None:
    """Return the mean of the arm's runs with its error."""
    values = runs.values((arm, ranking.point), ranking.phase, ranking.metric)
    finite = values[np.isfinite(values)]
    return mean_centre(finite) if finite.size else None


def _missing(arm: str, session: Session, runs: Runs, reference: str) -> MatrixCell:
    """Return the cell of an arm that has no figure."""
    for not_run in session.not_run:
        if not_run.arm == arm:
            return MatrixCell(arm, NOT_RUN, session=session.id, reason=not_run.reason, fix=not_run.fix)
    errors = [sample.error for sample in session.failed if sample.arm == arm and sample.error]
    if not errors and runs.ran(arm):
        errors = [f"no round has a figure of it and of {reference}"]
    return MatrixCell(arm, NOT_RUN, session=session.id, reason=errors[-1] if errors else "no run of it counts")
