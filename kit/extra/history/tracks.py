"""The past of a session in the store: for each figure the series that ends with the session."""

from __future__ import annotations

from collections.abc import Sequence

from kit.analysis.runs.compare import Comparison
from kit.analysis.session.analyse import Analysis, whole_real
from kit.analysis.session.entry import Entry
from kit.extra.history.analysis.change_attribution import CommonChange, find_common, tracks_by_machine
from kit.extra.history.analysis.changepoint import ChangeHistory, confirming, track
from kit.extra.history.analysis.series import compared_alike
from kit.extra.history.fleet_history import Figure, find_fleet_past
from kit.model.fact import MACHINE, WORKER
from kit.model.machine import class_of
from kit.model.session import DONE, Request, Session
from kit.store import SessionFilter, Store
from kit.store.schema.tables import machine_of


def find_track(
    comparison: Comparison, session: Session, store: Store, across: Sequence[str] | None = None, confirm: int = 0
) -> ChangeHistory:
    """Return the series of one comparison. ``across``, ``confirm``: None and 0 for the session's own.

    For a fleet's machine only its own sessions are read: among the newest of a thousand machines each has one."""
    across = session.request.ignore if across is None else across
    confirm = confirm or confirming(session.request)
    machine = MACHINE.text(session.facts) if WORKER.text(session.facts) and WORKER.key not in across else ""
    return track(_entries(comparison, session, store, session.created, machine), session.id, across, confirm)


def _entries(
    comparison: Comparison, session: Session, store: Store, until: float | None = None, machine: str = ""
) -> list[Entry]:
    entries = store.history(session.title, comparison.arm, comparison.phase, comparison.metric, machine, until=until)
    return compared_alike(entries, comparison.baseline, comparison.point)


def newest_request(store: Store, title: str, arm: str, machine: str = "") -> Request:
    """Return what was asked for in the newest session of a history: how the whole of it is read."""
    newest = store.list(SessionFilter(title, arm, machine, DONE), 1)
    return newest[0].request if newest else Request()


def find_whose(
    history: ChangeHistory, session: Session, store: Store, across: Sequence[str] = ()
) -> tuple[CommonChange, ...]:
    """Return, for each change of a fleet's machine, or the beginning of its series, whether other machines of its class
    changed."""
    worker = history.series.entries[-1].worker
    if not worker or not (history.series.began_with or any(change.confirmed for change in history.changes)):
        return ()
    comparison = history.series.entries[-1].outcome.comparison
    figure = Figure(session.title, comparison.arm, comparison.phase, comparison.metric)
    past = find_fleet_past(store, figure, machine_of(session.facts), class_of(session.facts))
    entries = compared_alike(past.entries, comparison.baseline, comparison.point)
    common = find_common(tracks_by_machine(entries, across, history.confirm), past.drawn)
    series_start = history.series.entries[0].created
    return tuple(
        candidate
        for candidate in common
        if any(change.machine == worker and change.between[1] >= series_start for change in candidate.changes)
    )


def find_tracks(
    session: Session, analysis: Analysis, store: Store, across: Sequence[str] | None = None, confirm: int = 0
) -> tuple[ChangeHistory, ...]:
    """Return the series of real time of the whole run, for each arm and point; empty for an unfinished session."""
    if session.status != DONE:
        return ()
    return tuple(
        find_track(comparison, session, store, across, confirm)
        for comparison in whole_real(analysis.comparisons)
        if comparison.ratio is not None and not comparison.control
    )
