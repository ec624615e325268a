"""Outcomes of sessions: read from the store, or computed from samples where they are missing or of other statistics.

Imports the analyses with their libraries, which take longer than a list of sessions: the store imports it on use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection

from kit.analysis.runs.compare import Comparison, compare
from kit.analysis.runs.run_table import Runs
from kit.analysis.session.entry import Entry, make_entries
from kit.analysis.session.outcome import Outcome, outcomes
from kit.analysis.session.timing import looks
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
        session_outcomes = _outcomes(session)
        if self._read_only:
            self._worked_out[session.id] = session_outcomes
            return
        try:
            with self._database.writing() as connection:
                write_outcomes(connection, session.id, session_outcomes)
        except RunError:  # a store that may only be read
            self._worked_out[session.id] = session_outcomes

    def entries(self, listed: Sequence[Session], arms: Sequence[str], phase: str, metric: str) -> tuple[Entry, ...]:
        heads = {head.id: head for head in listed}
        names = list(heads)
        with self._database.reading() as connection:
            stored_names = kept_of(connection, names)
        for name in names:
            if name not in stored_names and name not in self._worked_out:
                self.keep(self._get(name))
        with self._database.reading() as connection:
            stored = read_outcomes(connection, names, arms, phase, metric)
        pairs = [(name, outcome) for name, outcome in stored if outcome and name not in self._worked_out]
        for name in {name for name, outcome in stored if outcome is None} & heads.keys() - self._worked_out.keys():
            self._worked_out[name] = _outcomes(self._get(name))
        for session_id, known_outcomes in self._worked_out.items():
            pairs += [(session_id, outcome) for outcome in known_outcomes if _is_of(outcome, arms, phase, metric)]
        of_each: dict[str, list[Outcome]] = {}
        for name, outcome in pairs:
            if name in heads and outcome.comparison.ratio:
                of_each.setdefault(name, []).append(outcome)
        entries = (
            entry for name, session_outcomes in of_each.items() for entry in make_entries(heads[name], session_outcomes)
        )
        return tuple(sorted(entries, key=lambda entry: (entry.created, entry.session)))

    def results(self, names: Sequence[str]) -> Mapping[str, Sequence[Comparison]]:
        with self._database.reading() as connection:
            return read_results(connection, names, "real")


def write_new(connection: Connection, session: Session) -> None:
    """Compute the outcomes of a session that this transaction adds, and write them."""
    write_outcomes(connection, session.id, _outcomes(session))


def _outcomes(session: Session) -> tuple[Outcome, ...]:
    runs = Runs(session.samples)
    return outcomes(runs, compare(runs, session.baselines, looks=looks(session)))


def _is_of(outcome: Outcome, arms: Sequence[str], phase: str, metric: str) -> bool:
    matches = outcome.comparison.arm in arms and outcome.comparison.metric == metric
    return matches and (outcome.comparison.phase == phase if phase else outcome.whole)
