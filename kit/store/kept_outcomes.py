"""Outcomes of sessions: read from the store, or computed from samples where they are missing or of other statistics.

Imports the analyses with their libraries, which take longer than a list of sessions: the store imports it on use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection

from kit.analysis.runs.compare import Comparison, compare
from kit.analysis.runs.run_table import Runs
from kit.analysis.session.entry import Entry, make_entries
from kit.analysis.session.outcome import Outcome, outcomes
from kit.analysis.session.stopping import looks
from kit.core.errors import RunError
from kit.model.session import Session
from kit.store.database import Database
from kit.store.schema.outcomes import kept_of, read_outcomes, read_results, write_outcomes


class KeptOutcomes:
    """``get``: returns a session with its samples."""

    def __init__(self, database: Database, read_only: bool, get: Callable[[str], Session]) -> None:
        self._database, self._read_only, self._get = database, read_only, get
        self._worked_out: dict[str, tuple[Outcome, ...]] = {}  # of sessions that a store could not accept

    def keep(self, session: Session) -> None:
        """Compute the session's outcomes and store them."""
        found = _outcomes(session)
        if self._read_only:
            self._worked_out[session.id] = found
            return
        try:
            with self._database.writing() as connection:
                write_outcomes(connection, session.id, found)
        except RunError:  # a store that may only be read
            self._worked_out[session.id] = found

    def entries(self, listed: Sequence[Session], arms: Sequence[str], phase: str, metric: str) -> tuple[Entry, ...]:
        heads = {item.id: item for item in listed}
        names = list(heads)
        with self._database.reading() as connection:
            kept = kept_of(connection, names)
        for name in names:
            if name not in kept and name not in self._worked_out:
                self.keep(self._get(name))
        with self._database.reading() as connection:
            stored = read_outcomes(connection, names, arms, phase, metric)
        found = [(name, item) for name, item in stored if item and name not in self._worked_out]
        for name in {name for name, item in stored if item is None} & heads.keys() - self._worked_out.keys():
            self._worked_out[name] = _outcomes(self._get(name))
        for session_id, known in self._worked_out.items():
            found += [(session_id, item) for item in known if _is_of(item, arms, phase, metric)]
        of_each: dict[str, list[Outcome]] = {}
        for name, item in found:
            if name in heads and item.comparison.ratio:
                of_each.setdefault(name, []).append(item)
        made = (entry for name, mine in of_each.items() for entry in make_entries(heads[name], mine))
        return tuple(sorted(made, key=lambda entry: (entry.created, entry.session)))

    def results(self, names: Sequence[str]) -> Mapping[str, Sequence[Comparison]]:
        with self._database.reading() as connection:
            return read_results(connection, names, "real")


def write_new(connection: Connection, session: Session) -> None:
    """Compute the outcomes of a session that this transaction adds, and write them."""
    write_outcomes(connection, session.id, _outcomes(session))


def _outcomes(session: Session) -> tuple[Outcome, ...]:
    runs = Runs(session.samples)
    return outcomes(runs, compare(runs, session.baselines, looks=looks(session)))


def _is_of(item: Outcome, arms: Sequence[str], phase: str, metric: str) -> bool:
    mine = item.comparison.arm in arms and item.comparison.metric == metric
    return mine and (item.comparison.phase == phase if phase else item.whole)
