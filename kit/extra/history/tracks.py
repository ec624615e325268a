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
from kit.model.machine_class import class_of
from kit.model.session import DONE, Request, Session
from kit.store import SessionFilter, Store
from kit.store.schema.tables import machine_of


def find_track(
    item: Comparison, session: Session, store: Store, across: Sequence[str] | None = None, confirm: int = 0
) -> ChangeHistory:
    """Return the series of one comparison. ``across``, ``confirm``: None and 0 for the session's own.

    For a fleet's machine only its own sessions are read: among the newest of a thousand machines each has one."""
    across = session.request.ignore if across is None else across
    confirm = confirm or confirming(session.request)
    machine = MACHINE.text(session.facts) if WORKER.text(session.facts) and WORKER.key not in across else ""
    return track(_entries(item, session, store, session.created, machine), session.id, across, confirm)


def _entries(
    item: Comparison, session: Session, store: Store, until: float | None = None, machine: str = ""
) -> list[Entry]:
    found = store.history(session.title, item.arm, item.phase, item.metric, machine, until=until)
    return compared_alike(found, item.baseline, item.point)


def newest_request(store: Store, title: str, arm: str, machine: str = "") -> Request:
    """Return what was asked for in the newest session of a history: how the whole of it is read."""
    newest = store.list(SessionFilter(title, arm, machine, DONE), 1)
    return newest[0].request if newest else Request()


def find_whose(
    told: ChangeHistory, session: Session, store: Store, across: Sequence[str] = ()
) -> tuple[CommonChange, ...]:
    """Return, for each change of a fleet's machine, or the beginning of its series, whether other machines of its class
    changed."""
    worker = told.series.entries[-1].worker
    if not worker or not (told.series.began_with or any(change.confirmed for change in told.changes)):
        return ()
    item = told.series.entries[-1].outcome.comparison
    figure = Figure(session.title, item.arm, item.phase, item.metric)
    past = find_fleet_past(store, figure, machine_of(session.facts), class_of(session.facts))
    entries = compared_alike(past.entries, item.baseline, item.point)
    found = find_common(tracks_by_machine(entries, across, told.confirm), past.drawn)
    begun = told.series.entries[0].created
    return tuple(
        one for one in found if any(item.machine == worker and item.between[1] >= begun for item in one.changes)
    )


def find_tracks(
    session: Session, analysis: Analysis, store: Store, across: Sequence[str] | None = None, confirm: int = 0
) -> tuple[ChangeHistory, ...]:
    """Return the series of real time of the whole run, for each arm and point; empty for an unfinished session."""
    if session.status != DONE:
        return ()
    return tuple(
        find_track(item, session, store, across, confirm)
        for item in whole_real(analysis.comparisons)
        if item.ratio is not None and not item.control
    )
