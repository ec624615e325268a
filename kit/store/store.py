"""Reads and writes sessions. Every sample is durable when ``add_sample`` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, insert, select

from kit.analysis.columns import Runs
from kit.analysis.compare import Comparison, compare
from kit.analysis.history import Entry, make_entries
from kit.analysis.outcome import Outcome, outcomes
from kit.analysis.stopping import looks, widening
from kit.core.codec import UnreadableError
from kit.core.errors import RunError, UsageError
from kit.core.private import make_private
from kit.model.sample import Sample
from kit.model.session import DONE, Session
from kit.store.changes import Change, Flag, Status, apply_changes
from kit.store.database import Database
from kit.store.delivery import RUNNING, deliver
from kit.store.heads import (
    ANY,
    Wanted,
    count_heads,
    find_beginning,
    find_heads,
    find_newest_of_each,
    known_arms,
    known_machines,
    known_titles,
)
from kit.store.outbox import outbox_directory
from kit.store.outcomes import drop_older_outcomes, kept_of, read_outcomes, read_results, write_outcomes
from kit.store.roles import grant
from kit.store.rows import read_samples, read_session, session_row, write_sample
from kit.store.schema import name_machines, sessions
from kit.store.state import State, read_state


def open_store(
    url: str,
    default: Path,
    read_only: bool = False,
    tell: Callable[[str], None] = lambda text: None,
    patient: bool = False,
) -> Store:
    """Open the store at ``url``, or the SQLite file ``default``. Raises UsageError if it can't be opened.

    ``read_only``: nothing is written to it any more, outcomes neither; one that is not there is made all the same.
    ``tell`` is told of what in it can't be read, and of what had waited for it beside ``default`` and is stored now.
    ``patient``: a server that does not answer is no reason to raise: the store is opened once it does.
    """
    store = reach_store(url, default, read_only, tell, patient)
    if not read_only:
        for item in deliver(store, outbox_directory(default.parent)):
            if item.store in ("", store.name) and item.waits != RUNNING:
                tell(str(item))
    return store


def reach_store(url: str, default: Path, read_only: bool, tell: Callable[[str], None], patient: bool) -> Store:
    """As ``open_store``, with nothing delivered."""
    if not url:
        make_private(default.parent)
        url = f"sqlite:///{default}"
    return Store(Database(url, patient), read_only, tell)


#: Sessions that a history looks back on.
HISTORY = 1000
#: Sessions that are counted; of more nobody asks how many.
COUNTED = 10_000
#: Among so many newest ones is one that can be read.
_FIRST = 100


class Store:
    def __init__(self, database: Database, read_only: bool, tell: Callable[[str], None]) -> None:
        self._database = database
        self._read_only = read_only
        self._tell = tell
        self._unreadable: set[str] = set()
        self._worked_out: dict[str, tuple[Outcome, ...]] = {}  # of sessions that a store could not be told of

    @property
    def name(self) -> str:
        """Where the store is, without a password."""
        return self._database.name

    @property
    def remote(self) -> bool:
        """Whether it is a server's, which can be away."""
        return self._database.remote

    def create(self, session: Session) -> None:
        with self._database.writing() as connection:
            connection.execute(insert(sessions), session_row(session))

    def add(self, session: Session) -> None:
        """A session with all its samples, or nothing of it."""
        with self._database.writing() as connection:
            _add(connection, session)

    def add_new(self, given: Iterable[Session]) -> frozenset[str]:
        """All of them, or none; those whose ids are there already are left as they are. Returns these ids. Reads one
        session at a time, and what reading raises is raised."""
        there = set()
        with self._database.writing() as connection:
            for session in given:
                if connection.execute(select(sessions.c.id).where(sessions.c.id == session.id)).first():
                    there.add(session.id)
                else:
                    _add(connection, session)
        return frozenset(there)

    def update(self, session: Session) -> None:
        """Write facts and not-run arms anew."""
        self.take(session.id, [session])

    def set_status(self, session_id: str, status: str) -> None:
        self.take(session_id, [Status(status)])

    def add_sample(self, session_id: str, *samples: Sample) -> None:
        """All of them, or none."""
        self.take(session_id, samples)

    def set_flags(self, session_id: str, arm: str, point: str, block: int, flags: str) -> None:
        """Flag a measured run that something outside hit."""
        self.take(session_id, [Flag(arm, point, block, flags)])

    def take(self, session_id: str, changes: Sequence[Change]) -> None:
        """All of them, or none."""
        with self._database.writing() as connection:
            apply_changes(connection, session_id, changes)

    def keep_outcomes(self, session: Session) -> None:
        """Work out what the session found and keep it, for histories."""
        self._keep(session.id, _outcomes(session))

    def _keep(self, session_id: str, found: Sequence[Outcome]) -> None:
        if self._read_only:
            self._worked_out[session_id] = tuple(found)
            return
        try:
            with self._database.writing() as connection:
                write_outcomes(connection, session_id, found)
        except RunError:  # a store that may only be read
            self._worked_out[session_id] = tuple(found)

    def history(
        self, title: str, arm: str, phase: str = "", metric: str = "real", machine: str = "",
        most: int | None = HISTORY, until: float | None = None,
    ) -> tuple[Entry, ...]:  # fmt: skip
        """What the newest ``most`` finished sessions of that title, all for None, with that arm, found of it: of a
        phase, or of the whole run; of all machines, or of those whose names begin so; ``until``: of those that began
        no later. Oldest first.

        Where a session's outcomes are not kept yet, or by other statistics, they are worked out from its samples.
        """
        return self.entries(self.list(Wanted(title, arm, machine, DONE, until=until), most), (arm,), phase, metric)

    def entries(
        self, listed: Sequence[Session], arms: Sequence[str], phase: str = "", metric: str = "real"
    ) -> tuple[Entry, ...]:
        """As ``history``, of these sessions and arms."""
        heads = {item.id: item for item in listed}
        names = list(heads)
        with self._database.reading() as connection:
            kept = kept_of(connection, names)
        for name in names:
            if name not in kept and name not in self._worked_out:
                self.keep_outcomes(self.get(name))
        with self._database.reading() as connection:
            stored = read_outcomes(connection, names, arms, phase, metric)
        found = [(name, item) for name, item in stored if item and name not in self._worked_out]
        for name in {name for name, item in stored if item is None} & heads.keys() - self._worked_out.keys():
            self._worked_out[name] = _outcomes(self.get(name))
        for session_id, known in self._worked_out.items():
            found += [(session_id, item) for item in known if _is_of(item, arms, phase, metric)]
        of_each: dict[str, list[Outcome]] = {}
        for name, item in found:
            if name in heads and item.comparison.ratio:
                of_each.setdefault(name, []).append(item)
        made = (entry for name, mine in of_each.items() for entry in make_entries(heads[name], mine))
        return tuple(sorted(made, key=lambda entry: (entry.created, entry.session)))

    def results(self, names: Sequence[str], metric: str = "real") -> Mapping[str, Sequence[Comparison]]:
        """What each of these sessions found of the whole run, by id; nothing of one whose outcomes are not kept."""
        with self._database.reading() as connection:
            return read_results(connection, names, metric)

    def list(self, wanted: Wanted = ANY, most: int | None = None, skip: int = 0) -> tuple[Session, ...]:
        """Sessions without their samples, newest first: of those wanted ``most`` after the first ``skip``."""
        with self._database.reading() as connection:
            return tuple(filter(None, map(self._head, find_heads(connection, wanted, most, skip))))

    def newest_of_each(self, wanted: Wanted, most: int, skip: int = 0) -> tuple[Session, ...]:
        """Sessions without their samples, newest first: as many of each machine, about ``most`` in all but one of each
        at least; of these all but the first ``skip`` of each."""
        with self._database.reading() as connection:
            return tuple(filter(None, map(self._head, find_newest_of_each(connection, wanted, most, skip))))

    def count(self, wanted: Wanted = ANY, most: int = COUNTED) -> int:
        """How many sessions there are of these; ``most`` where there are more."""
        with self._database.reading() as connection:
            return count_heads(connection, wanted, most)

    def titles(self) -> Sequence[str]:
        """Of all sessions, as far as their first 100 characters differ."""
        with self._database.reading() as connection:
            return known_titles(connection)

    def machines(self) -> Mapping[str, Mapping[str, str]]:
        """Of all sessions, by id: what the newest of each says of its machine, and of itself."""
        with self._database.reading() as connection:
            return known_machines(connection)

    def arms(self) -> Sequence[str]:
        """Of the newest sessions."""
        with self._database.reading() as connection:
            return known_arms(connection, HISTORY)

    def names(self, beginning: str = "", most: int = HISTORY) -> Sequence[str]:
        """Ids of sessions that begin so."""
        with self._database.reading() as connection:
            return find_beginning(connection, beginning, most)

    def _head(self, row: Mapping[Any, Any]) -> Session | None:
        """None, and said once, where it can't be read: the others can."""
        try:
            return read_session(row)
        except UnreadableError as error:
            if row["id"] not in self._unreadable:
                self._unreadable.add(row["id"])
                self._tell(f"session {str(row['id'])!r} can't be read and is left out: {error.message}")
            return None

    def get(self, name: str) -> Session:
        """A session with its samples, by id, by unique beginning of it, or ``last``. Raises UsageError."""
        with self._database.reading() as connection:
            try:
                head = read_session(_row(connection, name) or _row(connection, self._by_beginning(name)) or {})
                return replace(head, samples=read_samples(connection, head.id))
            except UnreadableError as error:
                raise UsageError(f"session {name}: {error.message}", "kit export the others into a new store") from None

    def _by_beginning(self, name: str) -> str:
        """The id."""
        if name == "last":
            found: Sequence[str] = [item.id for item in self.list(most=_FIRST)][:1]
        else:
            found = self.names(name) if name else ()
        if len(found) != 1:
            what = "no session" if not found else f"{len(found)} sessions begin with"
            raise UsageError(f"{what} '{name}'", "kit sessions lists them; 'last' is the newest")
        return found[0]

    def mend(self) -> State:
        """What older kits have written since it was brought up to date gets what it lacks, and outcomes by older
        statistics go. Its owner alone may."""
        with self._database.writing() as connection:
            name_machines(connection)
            drop_older_outcomes(connection)
            return read_state(connection)

    def grant(self, role: str, kind: str) -> State:
        """Raises UsageError."""
        with self._database.writing() as connection:
            grant(connection, role, kind)
            return read_state(connection)

    def remove(self, session_id: str) -> None:
        with self._database.writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.id == session_id))

    def close(self) -> None:
        self._database.close()


def _add(connection: Connection, session: Session) -> None:
    connection.execute(insert(sessions), session_row(session))
    for sample in session.samples:
        write_sample(connection, session.id, sample)
    if session.status == DONE:
        write_outcomes(connection, session.id, _outcomes(session))


def _outcomes(session: Session) -> tuple[Outcome, ...]:
    runs = Runs(session.samples)
    return outcomes(runs, compare(runs, session.baselines, widening=widening(looks(session))))


def _row(connection: Connection, session_id: str) -> RowMapping | None:
    return connection.execute(select(sessions).where(sessions.c.id == session_id)).mappings().first()


def _is_of(item: Outcome, arms: Sequence[str], phase: str, metric: str) -> bool:
    mine = item.comparison.arm in arms and item.comparison.metric == metric
    return mine and (item.comparison.phase == phase if phase else item.whole)
