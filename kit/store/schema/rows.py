"""Sessions and samples as rows of the store's tables, and back: rows that are read are checked as imports are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from kit.core.codec import decode, decode_json, encode_json
from kit.model.sample import PHASE_FIELDS, Sample
from kit.model.session import Session
from kit.store.schema.tables import calls, machine_of, phases, profiles, reported, samples, tasks

#: Columns that contain JSON.
_JSON = ("request", "arms", "baselines", "facts", "not_run", "plan")
#: Lists of a phase, stored in tables of their own, and the fields of ``Phase``.
_LISTS = ((reported, "reported"), (tasks, "tasks"), (calls, "calls"), (profiles, "profiles"))
#: Columns of these tables that contain JSON.
_NESTED = ("histogram", "errors")


def session_row(session: Session) -> dict[str, Any]:
    row = {field.name: getattr(session, field.name) for field in fields(Session) if field.name != "samples"}
    return row | {name: encode_json(row[name]) for name in _JSON} | {"machine": machine_of(session.facts)}


def read_session(row: Mapping[Any, Any]) -> Session:
    """Return the session without its samples. Raises UnreadableError if a value is not the kit's."""
    values = {name: value for name, value in _values(row).items() if name not in ("machine", "role")}
    return decode(Session, values | {name: decode_json(Any, row[name]) for name in _JSON})


def insert_new(connection: Connection, table: Table, key: Sequence[str]) -> Any:
    """Return an INSERT that leaves an existing row of that key as it is, even one added at the same time."""
    from sqlalchemy.dialects import postgresql, sqlite  # with all their drivers: nothing that reads waits for them

    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table).on_conflict_do_nothing(index_elements=key)


def write_sample(connection: Connection, session_id: str, sample: Sample) -> None:
    """Write an imported sample: two equal ones may both be real."""
    key = connection.execute(insert(samples).returning(samples.c.id), _sample_row(session_id, sample)).scalar()
    _write_phases(connection, key, sample)


def write_sample_once(connection: Connection, session_id: str, sample: Sample) -> None:
    """Write a measured sample, unless it exists already."""
    row = _sample_row(session_id, sample) | {"identity": _identity(sample)}
    new = insert_new(connection, samples, ("session", "identity")).returning(samples.c.id)
    key = connection.execute(new, row).scalar()
    if key is not None:
        _write_phases(connection, key, sample)


#: Columns that identify a session's run.
_IDENTITY = ("arm", "point", "round", "kind", "started")


def _identity(sample: Sample) -> str:
    """Return the key, as short as an index needs."""
    return hashlib.sha256(encode_json([getattr(sample, name) for name in _IDENTITY]).encode()).hexdigest()[:32]


def _sample_row(session_id: str, sample: Sample) -> dict[str, Any]:
    row = {field.name: getattr(sample, field.name) for field in fields(Sample) if field.name != "phases"}
    return row | {"digests": encode_json(dict(sample.digests)), "session": session_id}


def _write_phases(connection: Connection, key: int | None, sample: Sample) -> None:
    if sample.phases:
        listed = list(enumerate(sample.phases))
        rows = [{name: getattr(phase, name) for name in PHASE_FIELDS} for phase in sample.phases]
        connection.execute(insert(phases), [{"sample": key, "position": i, **row} for i, row in enumerate(rows)])
        for table, name in _LISTS:
            rows = [
                {"sample": key, "position": i, "number": number, **_columns(asdict(entry))}
                for i, phase in listed
                for number, entry in enumerate(getattr(phase, name))
            ]
            if rows:
                connection.execute(insert(table), rows)


def read_samples(connection: Connection, session_id: str) -> tuple[Sample, ...]:
    """Return samples in the order of storage. Raises UnreadableError as ``read_session`` does."""
    sample_ids = select(samples.c.id).where(samples.c.session == session_id)
    by_phase: dict[tuple[int, int], dict[str, list[dict[str, Any]]]] = {}
    for table, name in _LISTS:
        listed = select(table).where(table.c.sample.in_(sample_ids)).order_by(table.c.number)
        for row in connection.execute(listed).mappings():
            of_phase = by_phase.setdefault((row["sample"], row["position"]), {})
            of_phase.setdefault(name, []).append(_fields(_values(row)))
    by_sample: dict[int, list[dict[str, Any]]] = {}
    query = select(phases).where(phases.c.sample.in_(sample_ids)).order_by(phases.c.sample, phases.c.position)
    for row in connection.execute(query).mappings():
        lists = by_phase.get((row["sample"], row["position"]), {})
        phase = {**{name: row[name] for name in PHASE_FIELDS}, **lists}
        by_sample.setdefault(row["sample"], []).append(phase)
    rows = connection.execute(select(samples).where(samples.c.session == session_id).order_by(samples.c.id)).mappings()
    return tuple(_sample(row, by_sample.get(row["id"], [])) for row in rows)


def _sample(row: Mapping[Any, Any], phase_values: list[dict[str, Any]]) -> Sample:
    digests = decode_json(dict[str, str], row["digests"])
    values = {name: value for name, value in _values(row).items() if name not in ("identity", "stored_in")}
    return decode(Sample, values | {"phases": phase_values, "digests": list(digests.items())})


def _columns(values: dict[str, Any]) -> dict[str, Any]:
    return values | {name: encode_json(values[name]) for name in _NESTED if name in values}


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    return row | {name: decode_json(Any, row[name]) for name in _NESTED if name in row}


def _values(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return values by plain ``str`` names; SQLAlchemy's names of columns are a subclass of ``str``."""
    return {str(name): value for name, value in row.items()}
