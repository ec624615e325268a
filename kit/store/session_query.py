"""Queries for sessions without their samples: a store may contain hundreds of thousands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnClause,
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    Text,
    and_,
    func,
    literal,
    literal_column,
    select,
    text,
    true,
)

from kit.core.codec import UnreadableError, decode_json, encode_json
from kit.model.fact import WORKER
from kit.store.schema.tables import MACHINE_LENGTH, TITLE_LENGTH, samples, sessions

#: Number of sessions read to find machines and their facts, equally many of each machine: a fleet has tens of thousands
#: a month.
LOOKED_AT = 3000


@dataclass(frozen=True)
class SessionFilter:
    """Conditions that sessions must meet; '', None or () for any."""

    title: str = ""
    arm: str = ""
    machine: str = ""  # the beginning of its id; without a match, of its name in the fleet
    status: str = ""
    since: float | None = field(default=None, kw_only=True)  # earliest start (Unix time)
    until: float | None = field(default=None, kw_only=True)  # latest start (Unix time)
    machines: tuple[str, ...] = field(default=(), kw_only=True)  # one of these ids


ANY = SessionFilter()


def find_heads(
    connection: Connection, session_filter: SessionFilter, most: int | None, skip: int
) -> Sequence[RowMapping]:
    """Return rows, newest first."""
    query = select(sessions).order_by(sessions.c.created.desc(), sessions.c.id.desc())
    return connection.execute(_only(connection, query, session_filter).limit(most).offset(skip)).mappings().all()


def find_newest_of_each(
    connection: Connection, session_filter: SessionFilter, most: int, skip: int = 0
) -> Sequence[RowMapping]:
    """Return rows, newest first: equally many of each machine, ``most`` in all, but one of each at least. The first
    ``skip`` of each are left out."""
    order = sessions.c.created.desc(), sessions.c.id.desc()
    machines = session_filter.machines or ("", *_distinct(connection, "machine", "~>~", "~<~"))
    of_each = max(1, most // len(machines))
    query = select(sessions)
    if connection.dialect.name == "sqlite":
        place = func.row_number().over(partition_by=sessions.c.machine, order_by=order).label("place")
        placed = _only(connection, select(sessions.c.id, place), session_filter).subquery()
        query = query.join(placed, placed.c.id == sessions.c.id).where(placed.c.place.between(skip + 1, of_each))
    else:  # which would read and sort the whole table for that, and is led to each machine's end of the index instead
        machine_names = func.unnest(literal([*machines], ARRAY(Text))).table_valued("name").render_derived()
        newest = (
            select(sessions.c.id)
            .where(sessions.c.machine == machine_names.c.name)
            .order_by(*order)
            .limit(max(0, of_each - skip))
            .offset(skip)
        )
        newest_ids = _only(connection, newest, session_filter).correlate(machine_names).lateral()
        query = (
            query.select_from(machine_names).join(newest_ids, true()).join(sessions, sessions.c.id == newest_ids.c.id)
        )
    return connection.execute(query.order_by(*order)).mappings().all()


def list_starts(connection: Connection, until: float) -> list[float]:
    """Return when the sessions up to that time began, newest first."""
    query = select(sessions.c.created).where(sessions.c.created <= until).order_by(sessions.c.created.desc())
    return list(connection.execute(query).scalars())


def count_heads(connection: Connection, session_filter: SessionFilter, most: int) -> int:
    """Return the number of sessions, ``most`` at most."""
    matches = _only(connection, select(sessions.c.id), session_filter).limit(most).subquery()
    return int(connection.execute(select(func.count()).select_from(matches)).scalar_one())


def count_samples(connection: Connection) -> dict[str, int]:
    """Return the number of samples by session."""
    query = select(samples.c.session, func.count()).group_by(samples.c.session)
    return {str(session): int(count) for session, count in connection.execute(query)}


def find_beginning(connection: Connection, beginning: str, most: int) -> list[str]:
    """Return the ids with this beginning."""
    begins = sessions.c.id.startswith(beginning, autoescape=True)
    listed = connection.execute(select(sessions.c.id).where(begins).order_by(sessions.c.id.desc()).limit(most))
    return [name for name in listed.scalars() if name.startswith(beginning)]  # SQLite takes A for a


def known_arms(connection: Connection, among: int) -> list[str]:
    """Return the arms of this number of the newest sessions."""
    newest = select(sessions.c.arms).order_by(sessions.c.created.desc()).limit(among)
    return sorted({arm for value in connection.execute(newest).scalars() for arm in _arms(value)})


def known_machines(connection: Connection) -> dict[str, dict[str, str]]:
    """Return machines by id, with the facts of the newest session of each."""
    newest = find_newest_of_each(connection, ANY, 1)
    return {row["machine"]: _facts(row["facts"]) for row in reversed(newest) if row["machine"]}


def known_titles(connection: Connection) -> list[str]:
    return _distinct(connection, f"substr(title, 1, {TITLE_LENGTH})", ">", "<")


def _distinct(connection: Connection, what: str, after: str, order: str) -> list[str]:
    """Return all values but ''. PostgreSQL would read the whole table, so the query goes from one value to the next
    through the index of ``what``, with the index's operators."""
    if connection.dialect.name == "sqlite":
        query = f"SELECT DISTINCT {what} FROM kit_sessions"
    else:
        least = f"FROM kit_sessions WHERE {what} {after} {{}} ORDER BY {what} USING {order} LIMIT 1"
        query = (
            f"WITH RECURSIVE found(value) AS ((SELECT {what} {least.format(repr(''))}) UNION ALL "
            f"SELECT (SELECT {what} {least.format('found.value')}) FROM found WHERE value IS NOT NULL) "
            "SELECT value FROM found WHERE value IS NOT NULL"
        )
    return sorted(value for value in connection.execute(text(query)).scalars() if value)


def _arms(value: str) -> tuple[str, ...]:
    try:
        return decode_json(tuple[str, ...], value)
    except UnreadableError:
        return ()


def _only(connection: Connection, query: Select[Any], session_filter: SessionFilter) -> Select[Any]:
    conditions: list[ColumnElement[bool]] = [true()]
    if session_filter.title:
        indexed: ColumnClause[str] = literal_column(
            f"substr(kit_sessions.title, 1, {TITLE_LENGTH})"
        )  # in the very words of its index
        conditions += [indexed == session_filter.title[:TITLE_LENGTH], sessions.c.title == session_filter.title]
    if session_filter.arm:
        conditions.append(sessions.c.arms.contains(json.dumps(session_filter.arm), autoescape=True))
    if session_filter.machine:
        conditions.append(_on_machine(connection, session_filter.machine))
    if session_filter.machines:
        conditions.append(sessions.c.machine.in_(session_filter.machines))
    if session_filter.since is not None:
        conditions.append(sessions.c.created >= session_filter.since)
    if session_filter.until is not None:
        conditions.append(sessions.c.created <= session_filter.until)
    if session_filter.status:
        conditions.append(sessions.c.status == session_filter.status)
    return query.where(and_(*conditions))


def _on_machine(connection: Connection, name: str) -> ColumnElement[bool]:
    """Return a condition for a machine. Workers' names are facts without an index. So machines whose newest sessions
    have such a name are found first, then sessions of these machines alone."""
    by_id = sessions.c.machine.startswith(name[:MACHINE_LENGTH], autoescape=True)
    if connection.execute(select(sessions.c.id).where(by_id).limit(1)).first():
        return by_id
    by_name = sessions.c.facts.contains(encode_json({WORKER.key: name})[1:-2], autoescape=True)
    newest = find_newest_of_each(connection, ANY, LOOKED_AT)
    machines = {row["machine"] for row in newest if WORKER.text(_facts(row["facts"])).startswith(name)}
    return sessions.c.machine.in_(machines) & by_name


def _facts(value: str) -> dict[str, str]:
    try:
        return decode_json(dict[str, str], value)
    except UnreadableError:
        return {}
