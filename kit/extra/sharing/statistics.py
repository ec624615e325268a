"""Statistics of a store: size, schema, owner."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Table, func, select, text

from kit.extra.sharing.roles import Roles, members
from kit.store.schema.tables import SCHEMA_VERSION, samples, sessions


@dataclass(frozen=True)
class State:
    """State of a store."""

    schema: int
    sessions: int
    runs: int
    bytes: int | None  # on the server's disk, with indexes; None for SQLite
    members: Roles | None  # None for SQLite


def read_state(connection: Connection) -> State:
    counts = _count(connection, sessions), _count(connection, samples)
    if connection.dialect.name != "postgresql":
        return State(SCHEMA_VERSION, *counts, None, None)
    size = connection.execute(
        text(
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE c.relkind = 'r' "
            "AND c.relnamespace = current_schema()::regnamespace AND c.relname LIKE 'kit\\_%'"
        )
    ).scalar_one()
    return State(SCHEMA_VERSION, *counts, int(size), members(connection))


def _count(connection: Connection, table: Table) -> int:
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())
