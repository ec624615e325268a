"""The schema of a store: its version and its creation."""

from __future__ import annotations

from sqlalchemy import Connection, insert, inspect, select, text

from kit.core.errors import UsageError
from kit.extensions import added
from kit.store.schema.indexes import add_indexes
from kit.store.schema.tables import SCHEMA_VERSION, metadata, schema

#: The PostgreSQL advisory lock for changes of the schema.
_LOCK = 7210451
#: Seconds to wait for a table that sessions write to; sessions wait behind a change of the table.
_PATIENCE = 10


def version_of(connection: Connection) -> int | None:
    """Return the version of the schema. None for an empty or unversioned store: nothing was ever stored there."""
    return connection.execute(select(schema.c.version)).scalar() if inspect(connection).has_table(schema.name) else None


def make_schema(connection: Connection) -> None:
    """Make the schema in an empty store; if two kits do so, the second finds it done.

    Raises UsageError for the store of another kit."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        connection.execute(text(f"SET LOCAL lock_timeout = '{_PATIENCE}s'"))
    version = version_of(connection)
    if version is not None:
        check_version(version)
        return
    add_indexes()
    metadata.create_all(connection)
    connection.execute(insert(schema).values(version=SCHEMA_VERSION))
    for makers in added("schema"):
        for make in makers:
            make(connection)


def check_version(version: int) -> None:
    """Check the version of the schema. Raises UsageError for the store of another kit."""
    if version > SCHEMA_VERSION:
        raise UsageError(f"the store has schema {version}, this kit knows {SCHEMA_VERSION}", "update the kit")
    if version < SCHEMA_VERSION:
        raise UsageError(
            f"the store has schema {version}, this kit needs {SCHEMA_VERSION}",
            "use another --store, or move this one away; the kit that made it can still read it",
        )
