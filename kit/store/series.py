"""What the store knows of a session's past: for each figure the series that ends with it."""

from __future__ import annotations

from collections.abc import Sequence

from kit.analysis.analyse import Analysis, whole_real
from kit.analysis.changepoint import CONFIRM, Track, track
from kit.analysis.common_change import CommonChange, find_common, tracks_by_machine
from kit.analysis.compare import Comparison
from kit.analysis.history import Entry, compared_alike
from kit.model.fact import MACHINE, WORKER
from kit.model.machine_class import class_of
from kit.model.session import DONE, Session
from kit.store import Store
from kit.store.fleet_past import Figure, find_fleet_past
from kit.store.schema import machine_of


def find_track(
    item: Comparison, session: Session, store: Store, across: Sequence[str] = (), confirm: int = CONFIRM
) -> Track:
    """The series of one comparison. Of a fleet's machine its own sessions are all that can be in it: among the newest
    of a thousand machines there is one of each."""
    machine = MACHINE.text(session.facts) if WORKER.text(session.facts) and WORKER.key not in across else ""
    return track(_entries(item, session, store, session.created, machine), session.id, across, confirm)


def _entries(
    item: Comparison, session: Session, store: Store, until: float | None = None, machine: str = ""
) -> list[Entry]:
    found = store.history(session.title, item.arm, item.phase, item.metric, machine, until=until)
    return compared_alike(found, item.baseline, item.point)


def find_whose(told: Track, session: Session, store: Store, across: Sequence[str] = ()) -> tuple[CommonChange, ...]:
    """Of the changes of a fleet's machine in its series, or where that began, whether other machines of its class saw
    them."""
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
    session: Session, analysis: Analysis, store: Store, across: Sequence[str] = (), confirm: int = CONFIRM
) -> tuple[Track, ...]:
    """Of real time of the whole run, for each arm and point; none of a session that is not finished."""
    if session.status != DONE:
        return ()
    return tuple(
        find_track(item, session, store, across, confirm)
        for item in whole_real(analysis.comparisons)
        if item.ratio is not None and not item.control
    )
