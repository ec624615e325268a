"""What happens to a session while it runs, as changes that a store takes in their order, and lines that hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, update

from kit.core.codec import Count, decode, decode_json, encode_json
from kit.model.sample import Sample
from kit.model.session import Session
from kit.store.rows import insert_new, session_row, write_sample_once
from kit.store.schema import samples, sessions


@dataclass(frozen=True)
class Flag:
    """A measured run that something outside hit."""

    arm: str
    point: str
    block: Count
    flags: str


@dataclass(frozen=True)
class Begin:
    """A session without samples. One that is there is left as it is: it may know more by now."""

    session: Session


@dataclass(frozen=True)
class Status:
    status: str


#: A session begins; it has new facts; a run is over; a run is flagged; the session has ended.
Change = Begin | Session | Sample | Flag | Status
_KINDS: dict[str, type[Change]] = {kind.__name__.lower(): kind for kind in (Begin, Session, Sample, Flag, Status)}


def dump_change(change: Change) -> bytes:
    if isinstance(change, Session):
        change = replace(change, samples=())
    return encode_json([type(change).__name__.lower(), change]).encode()


def load_change(line: bytes) -> Change:
    """Raises UnreadableError."""
    name, value = decode_json(tuple[str, Any], line)
    return decode(_KINDS.get(name, Status), value)


def apply_changes(connection: Connection, session_id: str, changes: Sequence[Change]) -> None:
    """In their order. A change that was made already, where the store's word on it was lost, makes no difference."""
    for change in changes:
        _APPLY[type(change)](connection, session_id, change)


def _begin(connection: Connection, session_id: str, begin: Begin) -> None:
    connection.execute(insert_new(connection, sessions, ("id",)), session_row(begin.session))


def _session(connection: Connection, session_id: str, session: Session) -> None:
    row = session_row(session)
    changed = {key: row[key] for key in ("facts", "not_run")}
    connection.execute(update(sessions).where(sessions.c.id == session_id).values(**changed))


def _flag(connection: Connection, session_id: str, flag: Flag) -> None:
    mine = (samples.c.session == session_id) & (samples.c.arm == flag.arm) & (samples.c.point == flag.point)
    run = mine & (samples.c.block == flag.block) & (samples.c.kind == "measured")
    connection.execute(update(samples).where(run).values(flags=flag.flags))


def _status(connection: Connection, session_id: str, status: Status) -> None:
    connection.execute(update(sessions).where(sessions.c.id == session_id).values(status=status.status))


_APPLY: dict[type[Change], Callable[[Connection, str, Any], None]] = {
    Begin: _begin,
    Session: _session,
    Sample: write_sample_once,
    Flag: _flag,
    Status: _status,
}
