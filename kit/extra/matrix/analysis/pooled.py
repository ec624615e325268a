"""A row of the matrix from several machines of one class: each arm's mean over them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kit.analysis.fleet.answer import FleetAnswer, FleetArm, LeftOut, answer
from kit.analysis.runs.compare import compare
from kit.analysis.runs.run_table import Runs
from kit.analysis.session.entry import Entry, make_entry
from kit.analysis.session.footprint import SPACE, WRITTEN
from kit.analysis.session.outcome import Outcome, outcomes
from kit.analysis.session.ranking import DURABLE, REAL, split_picks
from kit.analysis.session.stopping import looks
from kit.analysis.stats.estimate import NOT_RUN, REFERENCE, TOO_FEW
from kit.analysis.stats.estimators import Centre, log_centre, mean_centre
from kit.extra.matrix.analysis.cell import MatrixCell
from kit.extra.matrix.analysis.row import MatrixRow, plain_pairs, set_beside
from kit.model.session import NotRun, Session
from kit.model.sweep import Values, with_copies

#: What arms are compared with.
_REFERENCE, _BARE = "reference", "bare"
_Place = tuple[str, str]  # arm, point


@dataclass
class _Gathered:
    """What the sessions of one scenario have measured; all run as many copies at once."""

    # By what the arms are compared with, and by metric
    entries: dict[tuple[str, str], list[Entry]] = field(default_factory=dict)
    not_run: dict[str, NotRun] = field(default_factory=dict)  # by arm
    params: dict[str, Values] = field(default_factory=dict)  # by session

    def take(self, session: Session, reference: str, times: Sequence[str]) -> None:
        self.params[session.id] = session.request.params
        runs, rounds = Runs(session.samples), looks(session)
        picks = [arm for arm in split_picks(session.arms)[0] if arm != reference]
        questions = (
            (_REFERENCE, [(arm, reference) for arm in picks], (*times, SPACE, WRITTEN)),
            (_BARE, plain_pairs(session), times),
        )
        for kind, pairs, metrics in questions:
            for outcome in outcomes(runs, compare(runs, pairs, metrics, whole=True, looks=rounds)):
                self.entries.setdefault((kind, outcome.comparison.metric), []).append(make_entry(session, outcome))
        self.not_run = {not_run.arm: not_run for not_run in session.not_run if not_run.arm in picks} | self.not_run

    def answer(self, title: str, kind: str, metric: str) -> FleetAnswer:
        return answer(title, self.entries.get((kind, metric), ()))

    def sessions(self, metric: str) -> set[str]:
        return {entry.session for kind in (_REFERENCE, _BARE) for entry in self.entries.get((kind, metric), ())}


def pooled_rows(
    title: str, sessions: Iterable[Session], reference: str, metric: str, margin: float
) -> tuple[list[MatrixRow], tuple[LeftOut, ...]]:
    """Return a row for each point of a scenario, and the sessions that do not count. ``sessions``: one of each machine,
    one in memory at a time. A cell is the geometric mean over machines with Student's t over them
    (``kit.analysis.fleet.cost``)."""
    gathered = _Gathered()
    for session in sessions:
        gathered.take(session, reference, (metric,) if metric else (DURABLE, REAL))
    if not metric:
        metric = DURABLE if gathered.sessions(DURABLE) >= gathered.sessions(REAL) else REAL
    fleet_answer = gathered.answer(title, _REFERENCE, metric)
    beside = {
        name: {(fleet_arm.arm, fleet_arm.point): fleet_arm for fleet_arm in gathered.answer(title, kind, of).arms}
        for name, kind, of in (("bare", _BARE, metric), (SPACE, _REFERENCE, SPACE), (WRITTEN, _REFERENCE, WRITTEN))
    }
    measured = {
        (entry.session, entry.outcome.comparison.arm, entry.outcome.comparison.point): entry.outcome
        for entry in gathered.entries.get((_REFERENCE, metric), ())
    }
    rows = []
    of_reference = [point for arm, point in beside["bare"] if arm == reference]
    for point in dict.fromkeys([*(fleet_arm.point for fleet_arm in fleet_answer.arms), *of_reference]):
        arms = [fleet_arm for fleet_arm in fleet_answer.arms if fleet_arm.point == point]
        cells = list(_cells(point, arms, reference, beside, measured, margin))
        listed = {cell.arm for cell in cells}
        cells += [
            MatrixCell(arm, NOT_RUN, reason=not_run.reason, fix=not_run.fix)
            for arm, not_run in gathered.not_run.items()
            if arm not in listed
        ]
        session_params = _params(gathered, arms)
        full_point = with_copies(point, session_params)
        params = set_beside(full_point, session_params)
        rows.append(MatrixRow(title, full_point, metric, tuple(cells), max(cell.n for cell in cells), params=params))
    return rows, fleet_answer.left_out


def _params(gathered: _Gathered, arms: Sequence[FleetArm]) -> Values:
    """Return the parameters of the sessions that count, which did the same work."""
    counted = [machine.session for fleet_arm in arms for machine in fleet_arm.whole.machines]
    return gathered.params[counted[0]] if counted else next(iter(gathered.params.values()), ())


def _cells(
    point: str,
    arms: Sequence[FleetArm],
    reference: str,
    beside: Mapping[str, Mapping[_Place, FleetArm]],
    measured: Mapping[tuple[str, str, str], Outcome],
    margin: float,
) -> Iterator[MatrixCell]:
    of_arm = {
        fleet_arm.arm: [measured[machine.session, fleet_arm.arm, point] for machine in fleet_arm.whole.machines]
        for fleet_arm in arms
    }
    bases = {
        machine.session: measured[machine.session, fleet_arm.arm, point].base_mean
        for fleet_arm in arms
        for machine in fleet_arm.whole.machines
    }
    base = _mean(bases.values())
    bare = {arm: fleet_arm for (arm, at), fleet_arm in beside["bare"].items() if at == point}
    own_machines = len(bare[reference].whole.machines) if reference in bare else 0
    count = len(bases) or own_machines
    yield MatrixCell(reference, REFERENCE, bare=_centre(bare.get(reference)), seconds=base, n=count)
    for fleet_arm in arms:
        time, whole = _centre(fleet_arm), fleet_arm.whole
        if time is None or whole.ratio is None:
            reason = f"same work on {len(whole.machines)}: {whole.reason}"
            yield MatrixCell(fleet_arm.arm, TOO_FEW, n=len(whole.machines), reason=reason)
            continue
        more = _mean(outcome.comparison.difference for outcome in of_arm[fleet_arm.arm])
        seconds = _mean(outcome.mean for outcome in of_arm[fleet_arm.arm])
        yield MatrixCell(
            fleet_arm.arm, whole.ratio.judge(margin), time, whole.ratio.together, _centre(bare.get(fleet_arm.arm)),
            _centre(beside[SPACE].get((fleet_arm.arm, point))),
            _centre(beside[WRITTEN].get((fleet_arm.arm, point))),
            replace(seconds, estimate=base.estimate + more.estimate) if base and more and seconds else None,
            more, 0.0, len(whole.machines), whole.machines[-1].session,
        )  # fmt: skip


def _centre(fleet_arm: FleetArm | None) -> Centre | None:
    if fleet_arm is None:
        return None
    return log_centre(fleet_arm.whole.ratio, len(fleet_arm.whole.machines) - 1)


def _mean(values: Iterable[float | None]) -> Centre | None:
    figures = [value for value in values if value is not None]
    return mean_centre(figures) if figures else None
