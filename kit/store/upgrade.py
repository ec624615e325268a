"""The schema of a store: which it has, and how a new or an old one is brought to this kit's."""

from __future__ import annotations

from sqlalchemy import Connection, insert, inspect, select, text, update

from kit.core.errors import UsageError
from kit.store.roles import grant_again
from kit.store.schema import SCHEMA_VERSION, metadata, migrate, schema
from kit.store.views import make_views

#: Of PostgreSQL's advisory locks the one that whoever changes the schema holds.
_LOCK = 7210451
#: Seconds for which a table that sessions write to is waited for; they wait behind whoever wants to change it.
_PATIENCE = 10


def version_of(connection: Connection) -> int | None:
    """None of one that is empty, or was left without a version: nothing was ever stored in it."""
    return connection.execute(select(schema.c.version)).scalar() if inspect(connection).has_table(schema.name) else None


def upgrade(connection: Connection) -> None:
    """Make it, or bring it up to date; of two kits that come at once the second finds it done. Raises UsageError where
    a newer kit has made it."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        connection.execute(text(f"SET LOCAL lock_timeout = '{_PATIENCE}s'"))
    version = version_of(connection)
    if version == SCHEMA_VERSION:
        return
    if version is None:
        metadata.create_all(connection)
        connection.execute(insert(schema).values(version=SCHEMA_VERSION))
    elif version > SCHEMA_VERSION:
        raise UsageError(f"the store has schema {version}, this kit knows {SCHEMA_VERSION}", "update the kit")
    else:
        for number in range(version + 1, SCHEMA_VERSION + 1):
            migrate(connection, number)
            connection.execute(update(schema).values(version=number))
    make_views(connection)
    grant_again(connection)
