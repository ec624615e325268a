"""Reads and writes sessions. Every sample is durable when ``take`` returns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, RowMapping, delete, insert, select

from kit.core.codec import UnreadableError
from kit.core.errors import UsageError
from kit.core.private import make_private
from kit.model.event import Change
from kit.model.session import DONE, Session
from kit.store.database import Database, check_database
from kit.store.outbox.events import apply_changes
from kit.store.outbox.outbox import outbox_directory
from kit.store.outbox.outbox_flush import STILL_RUNS, deliver
from kit.store.schema.rows import read_samples, read_session, session_row, write_sample
from kit.store.schema.tables import sessions
from kit.store.session_query import (
    ANY,
    SessionFilter,
    count_heads,
    count_samples,
    find_beginning,
    find_heads,
    find_newest_of_each,
    known_arms,
    known_machines,
    known_titles,
    list_starts,
)

if TYPE_CHECKING:
    from kit.analysis.runs.compare import Comparison
    from kit.analysis.session.entry import Entry
    from kit.store.kept_outcomes import KeptOutcomes


def open_store(
    url: str,
    default: Path,
    read_only: bool = False,
    tell: Callable[[str], None] = lambda text: None,
    patient: bool = False,
) -> Store:
    """Open the store at ``url``, or the SQLite file ``default``. Raises UsageError if it can't be opened.

    ``read_only``: nothing more is written, not even outcomes; a missing store is created all the same. ``tell``
    receives messages on unreadable data, and on delivered outboxes beside ``default``. ``patient``: do not raise if a
    server does not answer; the store is opened once it does."""
    store = reach_store(url, default, read_only, tell, patient)
    if not read_only:
        for delivery in deliver(store, outbox_directory(default.parent)):
            if delivery.store in ("", store.name) and delivery.waits != STILL_RUNS:
                tell(str(delivery))
    return store


def check_store(url: str, default: Path) -> str:
    """Check that ``open_store`` would succeed, and return the store's name. Nothing is made. Raises UsageError."""
    if url or default.exists():
        return check_database(url or f"sqlite:///{default}")
    above = next(place for place in default.parents if place.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"{above} is not writable: it would have the store", "set KIT_HOME, or name a --store")
    return f"sqlite:///{default}"


def reach_store(url: str, default: Path, read_only: bool, tell: Callable[[str], None], patient: bool) -> Store:
    """Open the store as ``open_store`` does, without a delivery."""
    if not url:
        make_private(default.parent)
        url = f"sqlite:///{default}"
    return Store(Database(url, patient), read_only, tell)


#: Most sessions in a history.
HISTORY = 1000
#: Sessions that are counted at most.
COUNTED = 10_000
#: Sessions that one transaction removes.
_REMOVED = 200
#: Number of newest sessions that are tried to find a readable one.
_FIRST = 100


class Store:
    def __init__(self, database: Database, read_only: bool, tell: Callable[[str], None]) -> None:
        self._database = database
        self._read_only = read_only
        self._tell = tell
        self._unreadable: set[str] = set()

    @cached_property
    def _outcomes(self) -> KeptOutcomes:
        """Return the part that imports the analyses, which a list of sessions need not wait for."""
        from kit.store.kept_outcomes import KeptOutcomes

        return KeptOutcomes(self._database, self._read_only, self.get)

    @property
    def name(self) -> str:
        """Return the store's location, without a password."""
        return self._database.name

    @property
    def remote(self) -> bool:
        """Return whether the store is on a server, which can be unavailable."""
        return self._database.remote

    def create(self, session: Session) -> None:
        with self._database.writing() as connection:
            connection.execute(insert(sessions), session_row(session))

    def add(self, session: Session) -> None:
        """Store a session with all its samples, or nothing."""
        with self._database.writing() as connection:
            _add(connection, session)

    def add_new(self, new_sessions: Iterable[Session]) -> frozenset[str]:
        """Store all of these sessions, or none; those whose ids exist stay as they are. Return these ids. Reads one
        session at a time, and passes on errors of reading."""
        there = set()
        with self._database.writing() as connection:
            for session in new_sessions:
                if connection.execute(select(sessions.c.id).where(sessions.c.id == session.id)).first():
                    there.add(session.id)
                else:
                    _add(connection, session)
        return frozenset(there)

    def take(self, session_id: str, changes: Sequence[Change]) -> None:
        """Store all of them, or none."""
        with self._database.writing() as connection:
            apply_changes(connection, session_id, changes)

    def keep_outcomes(self, session: Session) -> None:
        """Compute the session's outcomes and store them, for histories."""
        self._outcomes.keep(session)

    def history(
        self, title: str, arm: str, phase: str = "", metric: str = "real", machine: str = "",
        most: int | None = HISTORY, until: float | None = None,
    ) -> tuple[Entry, ...]:  # fmt: skip
        """Return outcomes of that arm in the newest ``most`` finished sessions of that title, oldest first; all for
        None. Of a phase, or of the whole run; of all machines, or of those whose names begin so; ``until``: latest
        start.

        Missing outcomes, or those of other statistics, are computed from the samples."""
        return self.entries(
            self.list(SessionFilter(title, arm, machine, DONE, until=until), most), (arm,), phase, metric
        )

    def entries(
        self, listed: Sequence[Session], arms: Sequence[str], phase: str = "", metric: str = "real"
    ) -> tuple[Entry, ...]:
        """Return the entries as ``history`` does, of these sessions and arms."""
        return self._outcomes.entries(listed, arms, phase, metric)

    def results(self, names: Sequence[str]) -> Mapping[str, Sequence[Comparison]]:
        """Return each session's outcomes for the whole run's elapsed time, by id, as far as they are stored."""
        return self._outcomes.results(names)

    def list(self, session_filter: SessionFilter = ANY, most: int | None = None, skip: int = 0) -> tuple[Session, ...]:
        """Return matching sessions without their samples, newest first: ``most`` after the first ``skip``."""
        with self._database.reading() as connection:
            return tuple(filter(None, map(self._head, find_heads(connection, session_filter, most, skip))))

    def newest_of_each(self, session_filter: SessionFilter, most: int, skip: int = 0) -> tuple[Session, ...]:
        """Return sessions without their samples, newest first: equally many of each machine, about ``most`` in all.
        Each machine has one at least; the first ``skip`` of each are left out."""
        with self._database.reading() as connection:
            return tuple(filter(None, map(self._head, find_newest_of_each(connection, session_filter, most, skip))))

    def count(self, session_filter: SessionFilter = ANY, most: int = COUNTED) -> int:
        """Return the number of matching sessions, ``most`` at most."""
        with self._database.reading() as connection:
            return count_heads(connection, session_filter, most)

    def starts(self, until: float) -> Sequence[float]:
        """Return when the sessions up to that time began (Unix time), newest first."""
        with self._database.reading() as connection:
            return list_starts(connection, until)

    def sample_counts(self) -> Mapping[str, int]:
        """Return the number of samples of each session that has any, by id."""
        with self._database.reading() as connection:
            return count_samples(connection)

    def titles(self) -> Sequence[str]:
        """Return the titles of all sessions that differ in their first 100 characters."""
        with self._database.reading() as connection:
            return known_titles(connection)

    def machines(self) -> Mapping[str, Mapping[str, str]]:
        """Return all machines by id: facts in the newest session of each."""
        with self._database.reading() as connection:
            return known_machines(connection)

    def arms(self) -> Sequence[str]:
        """Return the arms of the newest sessions."""
        with self._database.reading() as connection:
            return known_arms(connection, HISTORY)

    def names(self, beginning: str = "", most: int = HISTORY) -> Sequence[str]:
        """Return the ids of sessions with this beginning."""
        with self._database.reading() as connection:
            return find_beginning(connection, beginning, most)

    def _head(self, row: Mapping[Any, Any]) -> Session | None:
        """Return the session; None, with one message, if it can't be read: the others can."""
        try:
            return read_session(row)
        except UnreadableError as error:
            if row["id"] not in self._unreadable:
                self._unreadable.add(row["id"])
                self._tell(f"session {str(row['id'])!r} can't be read and is left out: {error.message}")
            return None

    def get(self, name: str) -> Session:
        """Return a session with its samples, by id, by unique beginning of its id, or ``last``. Raises UsageError."""
        with self._database.reading() as connection:
            try:
                head = read_session(_row(connection, name) or _row(connection, self._by_beginning(name)) or {})
                return replace(head, samples=read_samples(connection, head.id))
            except UnreadableError as error:
                raise UsageError(
                    f"session {name}: {error.message}", "export the other sessions into a new store: kit export"
                ) from None

    def _by_beginning(self, name: str) -> str:
        """Return the id."""
        if name == "last":
            matches: Sequence[str] = [head.id for head in self.list(most=_FIRST)][:1]
        else:
            matches = self.names(name) if name else ()
        if len(matches) != 1:
            what = "no session" if not matches else f"{len(matches)} sessions begin with"
            raise UsageError(f"{what} '{name}'", "list them with kit sessions; 'last' is the newest")
        return matches[0]

    def writing(self) -> AbstractContextManager[Connection]:
        """Return a transaction for what extras store: all of it, or nothing."""
        return self._database.writing()

    def remove(self, names: Sequence[str]) -> None:
        """Remove sessions with all that belongs to them, and give the space back. Only the owner of a shared store
        may."""
        for start in range(0, len(names), _REMOVED):
            with self._database.writing() as connection:
                connection.execute(delete(sessions).where(sessions.c.id.in_(names[start : start + _REMOVED])))
        if names:
            self._database.compact()

    def close(self) -> None:
        self._database.close()


def _add(connection: Connection, session: Session) -> None:
    connection.execute(insert(sessions), session_row(session))
    for sample in session.samples:
        write_sample(connection, session.id, sample)
    if session.status == DONE:
        from kit.store.kept_outcomes import write_new

        write_new(connection, session)


def _row(connection: Connection, session_id: str) -> RowMapping | None:
    return connection.execute(select(sessions).where(sessions.c.id == session_id)).mappings().first()
