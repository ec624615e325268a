"""Reads and writes sessions. Every sample is durable when ``add_sample`` returns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from kit.compare import compare
from kit.errors import RunError, UsageError
from kit.history import Entry, make_entry
from kit.outcome import Outcome, outcomes
from kit.record import DONE, NotRun, Request, Session, is_session_id
from kit.reported import Reported
from kit.runs import Runs
from kit.sample import PHASE_FIELDS, Phase, Sample
from kit.store.database import Database, close_to_others, make_private
from kit.store.outcomes import kept_versions, read_outcomes, write_outcomes
from kit.store.schema import phases, reported, samples, sessions


def open_store(url: str, default: Path, read_only: bool = False) -> Store:
    """Open the store at ``url``, or the SQLite file ``default``. Raises UsageError if it can't be opened.

    ``read_only``: nothing is written to it any more, outcomes neither; one that is not there is made all the same.
    """
    if not url:
        make_private(default.parent)
        close_to_others(default)
        url = f"sqlite:///{default}"
    return Store(Database(url), read_only)


class Store:
    def __init__(self, database: Database, read_only: bool = False) -> None:
        self._database = database
        self._read_only = read_only
        self._worked_out: dict[str, tuple[Outcome, ...]] = {}  # of sessions that a store could not be told of

    @property
    def name(self) -> str:
        """Where the store is, without a password."""
        return self._database.name

    def create(self, session: Session) -> None:
        with self._database.writing() as connection:
            connection.execute(insert(sessions).values(**_session_row(session)))

    def add(self, session: Session) -> None:
        """A session with all its samples, or nothing of it."""
        with self._database.writing() as connection:
            connection.execute(insert(sessions).values(**_session_row(session)))
            for sample in session.samples:
                _add_sample(connection, session.id, sample)
        if session.status == DONE:
            self.keep_outcomes(session)

    def update(self, session: Session) -> None:
        """Write facts and not-run arms anew."""
        row = _session_row(session)
        changed = {key: row[key] for key in ("facts", "not_run")}
        with self._database.writing() as connection:
            connection.execute(update(sessions).where(sessions.c.id == session.id).values(**changed))

    def set_status(self, session_id: str, status: str) -> None:
        with self._database.writing() as connection:
            connection.execute(update(sessions).where(sessions.c.id == session_id).values(status=status))

    def add_sample(self, session_id: str, sample: Sample) -> None:
        with self._database.writing() as connection:
            _add_sample(connection, session_id, sample)

    def set_flags(self, session_id: str, arm: str, point: str, block: int, flags: str) -> None:
        """Flag a measured run that something outside hit."""
        mine = (samples.c.session == session_id) & (samples.c.arm == arm) & (samples.c.point == point)
        run = mine & (samples.c.block == block) & (samples.c.kind == "measured")
        with self._database.writing() as connection:
            connection.execute(update(samples).where(run).values(flags=flags))

    def keep_outcomes(self, session: Session) -> None:
        """Work out what the session found and keep it, for histories."""
        runs = Runs(session.samples)
        self._keep(session.id, outcomes(runs, compare(runs, session.baselines)))

    def _keep(self, session_id: str, found: Sequence[Outcome]) -> None:
        if self._read_only:
            self._worked_out[session_id] = tuple(found)
            return
        try:
            with self._database.writing() as connection:
                write_outcomes(connection, session_id, found)
        except RunError:  # a store that may only be read
            self._worked_out[session_id] = tuple(found)

    def history(self, title: str, arm: str, phase: str = "", metric: str = "real") -> tuple[Entry, ...]:
        """What all finished sessions of that title found of an arm: of a phase, or of the whole run. Oldest first.

        Where a session's outcomes are not kept yet, or by other statistics, they are worked out from its samples.
        """
        heads = {item.id: item for item in self.list() if (item.title, item.status) == (title, DONE)}
        with self._database.reading() as connection:
            kept = kept_versions(connection)
        for head in heads.values():
            if head.id not in kept and head.id not in self._worked_out:
                self.keep_outcomes(self.get(head.id))
        with self._database.reading() as connection:
            found = read_outcomes(connection, title, arm, phase, metric)
        for session_id, listed in self._worked_out.items():
            found += [(session_id, item) for item in listed if _is_of(item, arm, phase, metric)]
        made = [make_entry(heads[name], item) for name, item in found if name in heads and item.comparison.ratio]
        return tuple(sorted(made, key=lambda entry: (entry.created, entry.session)))

    def list(self) -> tuple[Session, ...]:
        """All sessions, newest first, without their samples."""
        with self._database.reading() as connection:
            query = select(sessions).order_by(sessions.c.created.desc(), sessions.c.id.desc())
            rows = connection.execute(query).mappings()
            # Kits before 0.6 imported any id; one that is a path must not come back as one.
            return tuple(_session(row) for row in rows if is_session_id(row["id"]))

    def get(self, name: str) -> Session:
        """A session with its samples, by id, by unique beginning of it, or ``last``. Raises UsageError."""
        known = self.list()
        found = known[:1] if name == "last" else [item for item in known if item.id == name]
        found = found or [item for item in known if name and item.id.startswith(name)]
        if len(found) != 1:
            what = "no session" if not found else f"{len(found)} sessions begin with"
            raise UsageError(f"{what} '{name}'", "kit sessions lists them; 'last' is the newest")
        return replace(found[0], samples=self._samples(found[0].id))

    def remove(self, session_id: str) -> None:
        with self._database.writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.id == session_id))

    def _samples(self, session_id: str) -> tuple[Sample, ...]:
        with self._database.reading() as connection:
            mine = select(samples.c.id).where(samples.c.session == session_id)
            query = select(phases).where(phases.c.sample.in_(mine)).order_by(phases.c.sample, phases.c.position)
            said = _reported(connection, session_id)
            by_sample: dict[int, list[Phase]] = {}
            for row in connection.execute(query).mappings():
                phase = Phase(**{name: row[name] for name in PHASE_FIELDS})
                figures = said.get((row["sample"], row["position"]), ())
                by_sample.setdefault(row["sample"], []).append(replace(phase, reported=tuple(figures)))
            rows = connection.execute(select(samples).where(samples.c.session == session_id).order_by(samples.c.id))
            return tuple(_sample(row, by_sample.get(row["id"], ())) for row in rows.mappings())

    def close(self) -> None:
        self._database.close()


def _reported(connection: Connection, session_id: str) -> dict[tuple[int, int], list[Reported]]:
    """What the workload reported, by sample and position of the phase."""
    mine = select(samples.c.id).where(samples.c.session == session_id)
    found: dict[tuple[int, int], list[Reported]] = {}
    query = select(reported).where(reported.c.sample.in_(mine)).order_by(reported.c.number)
    for row in connection.execute(query):
        figure = Reported(row.name, row.value, row.unit, row.better)
        found.setdefault((row.sample, row.position), []).append(figure)
    return found


def _add_sample(connection: Connection, session_id: str, sample: Sample) -> None:
    row = {item.name: getattr(sample, item.name) for item in fields(Sample) if item.name != "phases"}
    row["digests"] = json.dumps(dict(sample.digests))
    result = connection.execute(insert(samples).values(session=session_id, **row))
    key = result.inserted_primary_key[0] if result.inserted_primary_key else None
    if sample.phases:
        listed = list(enumerate(sample.phases))
        rows = [{name: getattr(phase, name) for name in PHASE_FIELDS} for phase in sample.phases]
        connection.execute(insert(phases), [{"sample": key, "position": i, **row} for i, row in enumerate(rows)])
        figures = [
            {"sample": key, "position": i, "number": number, **asdict(figure)}
            for i, phase in listed
            for number, figure in enumerate(phase.reported)
        ]
        if figures:
            connection.execute(insert(reported), figures)


def _is_of(item: Outcome, arm: str, phase: str, metric: str) -> bool:
    mine = (item.comparison.arm, item.comparison.metric) == (arm, metric)
    return mine and (item.comparison.phase == phase if phase else item.whole)


def _session_row(session: Session) -> dict[str, Any]:
    row = {item.name: getattr(session, item.name) for item in fields(Session) if item.name != "samples"}
    row["request"] = json.dumps(asdict(session.request))
    row["not_run"] = json.dumps([asdict(item) for item in session.not_run])
    for name in ("arms", "baselines"):
        row[name] = json.dumps(row[name])
    row["facts"] = json.dumps(dict(session.facts))
    return row


def _session(row: Mapping[Any, Any]) -> Session:
    values = dict(row)
    request = {key: _tuples(value) for key, value in json.loads(values["request"]).items()}
    values["request"] = Request(**request)
    values["arms"] = tuple(json.loads(values["arms"]))
    values["baselines"] = tuple((arm, base) for arm, base in json.loads(values["baselines"]))
    values["facts"] = json.loads(values["facts"])
    values["not_run"] = tuple(NotRun(**item) for item in json.loads(values["not_run"]))
    return Session(**values)


def _sample(row: Mapping[Any, Any], found: Sequence[Phase]) -> Sample:
    values = {key: value for key, value in row.items() if key not in ("id", "session")}
    values["digests"] = tuple(json.loads(values["digests"]).items())
    return Sample(phases=tuple(found), **values)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
