"""What the store knows of a session's past: for each figure the series that ends with it."""

from __future__ import annotations

from collections.abc import Sequence

from kit.analysis.analyse import Analysis, whole_real
from kit.analysis.changepoint import CONFIRM, Track, track
from kit.analysis.compare import Comparison
from kit.model.session import DONE, Session
from kit.store import Store


def find_track(
    item: Comparison, session: Session, store: Store, across: Sequence[str] = (), confirm: int = CONFIRM
) -> Track:
    """The series of one comparison."""
    mine = [
        entry
        for entry in store.history(session.title, item.arm, item.phase, item.metric)
        if (entry.outcome.comparison.baseline, entry.outcome.comparison.point) == (item.baseline, item.point)
    ]
    return track(mine, session.id, across, confirm)


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
