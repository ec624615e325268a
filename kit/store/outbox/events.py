"""Events of a session that a store receives, in their order, and lines that contain them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, update

from kit.core.codec import by_tag, decode_json, decode_tagged, encode_json
from kit.model.event import Change, FactsKnown, RunFlagged, SampleTaken, SessionStarted, StatusChanged
from kit.store.schema.rows import insert_new, session_row, write_sample_once
from kit.store.schema.tables import samples, sessions

_KINDS: Mapping[str, type[Change]] = by_tag(Change)


def load_change(line: bytes) -> Change:
    """Return what ``encode_tagged`` wrote. Raises UnreadableError."""
    return decode_tagged(_KINDS, decode_json(Any, line))


def apply_changes(connection: Connection, session_id: str, changes: Sequence[Change]) -> None:
    """Apply changes in their order. A repeated change has no effect, in case the store's reply to it was lost."""
    for change in changes:
        _APPLY[type(change)](connection, session_id, change)


def _start(connection: Connection, session_id: str, event: SessionStarted) -> None:
    """Add the session without its samples. An existing session stays as it is: the store may have newer data."""
    connection.execute(insert_new(connection, sessions, ("id",)), session_row(event.session))


def _know(connection: Connection, session_id: str, event: FactsKnown) -> None:
    _update(connection, session_id, facts=encode_json(event.facts), not_run=encode_json(event.not_run))


def _add(connection: Connection, session_id: str, event: SampleTaken) -> None:
    write_sample_once(connection, session_id, event.sample)


def _flag(connection: Connection, session_id: str, event: RunFlagged) -> None:
    of_arm = (samples.c.session == session_id) & (samples.c.arm == event.arm) & (samples.c.point == event.point)
    run = of_arm & (samples.c.round == event.round) & (samples.c.kind == "measured")
    connection.execute(update(samples).where(run).values(flags=event.flags))


def _change_status(connection: Connection, session_id: str, event: StatusChanged) -> None:
    _update(connection, session_id, status=event.status)


def _update(connection: Connection, session_id: str, **columns: str) -> None:
    connection.execute(update(sessions).where(sessions.c.id == session_id).values(**columns))


_APPLY: dict[type[Change], Callable[[Connection, str, Any], None]] = {
    SessionStarted: _start,
    FactsKnown: _know,
    SampleTaken: _add,
    RunFlagged: _flag,
    StatusChanged: _change_status,
}
