"""Rights in a shared store: PostgreSQL's roles. The owner may do everything; grants are as narrow as a kit needs.

A writer adds sessions and runs. It can neither change nor delete a figure, nor add to other roles' sessions
(kit.extra.sharing.rules). A reader reads."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Table, text

from kit.core.errors import UsageError
from kit.extra.sharing.rules import FILLED_IN
from kit.extra.sharing.views import VIEWS
from kit.store.schema.tables import metadata, samples, schema, sessions

WRITER, READER = "writer", "reader"

#: The only columns of a session that change while it runs: its state, and which runs were disturbed.
_CHANGED = {sessions.name: ("status", "facts", "not_run"), samples.name: ("flags",)}


@dataclass(frozen=True)
class Roles:
    """Roles of a store, by their rights."""

    owner: str
    writers: tuple[str, ...]
    readers: tuple[str, ...]


def grant(connection: Connection, role: str, kind: str) -> None:
    """Give a role the rights of that kind, and revoke its others. Raises UsageError if the role is unknown, or the
    database has no roles."""
    _check(connection)
    if not connection.execute(text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": role}).first():
        quoted = _quoted(connection, role)
        raise UsageError(
            f"the server has no role {role!r}", f"run as its administrator: CREATE ROLE {quoted} LOGIN PASSWORD …"
        )
    if role == members(connection).owner:
        raise UsageError(f"{role!r} owns the store: it has all rights", "grant to another role")
    to = _quoted(connection, role)
    for statement in _statements(kind):
        connection.exec_driver_sql(statement.format(role=to, schema=_quoted(connection, _schema(connection))))


def _statements(kind: str) -> list[str]:
    tables = [table.name for table in metadata.sorted_tables]
    everything = ", ".join([*tables, *VIEWS])
    sequence = f"{samples.name}_id_seq"
    statements = [
        f"REVOKE ALL ON {everything} FROM {{role}}",
        f"REVOKE ALL ON SEQUENCE {sequence} FROM {{role}}",
        "GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT SELECT ON {everything} TO {{role}}",
    ]
    if kind == WRITER:
        statements += [
            f"GRANT INSERT ({', '.join(_given(table))}) ON {table.name} TO {{role}}"
            for table in metadata.sorted_tables
            if table is not schema
        ]
        statements.append(f"GRANT USAGE ON SEQUENCE {sequence} TO {{role}}")
        statements += [f"GRANT UPDATE ({', '.join(names)}) ON {table} TO {{role}}" for table, names in _CHANGED.items()]
    return statements


def _given(table: Table) -> list[str]:
    """Return quoted names of the columns that a writer sets; the server numbers runs, and records who stored them."""
    filled = {*FILLED_IN.get(table.name, ()), *(("id",) if table is samples else ())}
    return [f'"{column.name}"' for column in table.columns if column.name not in filled]


def members(connection: Connection) -> Roles:
    """Return the roles. Raises UsageError if the database has no roles."""
    _check(connection)
    owner = connection.execute(
        text("SELECT tableowner FROM pg_tables WHERE tablename = :table AND schemaname = current_schema()"),
        {"table": samples.name},
    ).scalar()
    rights: dict[str, set[str]] = {}
    granted = text(
        "SELECT DISTINCT grantee, privilege_type FROM information_schema.role_column_grants "
        "WHERE table_name = :table AND table_schema = current_schema() AND grantee <> 'PUBLIC'"
    )
    for role, right in connection.execute(granted, {"table": samples.name}):
        rights.setdefault(role, set()).add(right)
    rights.pop(str(owner), None)
    writers = tuple(sorted(role for role, granted_rights in rights.items() if "INSERT" in granted_rights))
    return Roles(str(owner), writers, tuple(sorted(rights.keys() - set(writers))))


def _check(connection: Connection) -> None:
    if connection.dialect.name != "postgresql":
        raise UsageError(
            "SQLite has no roles: who may read and write is said by its file's mode", "use chmod and chown"
        )


def _schema(connection: Connection) -> str:
    return str(connection.execute(text("SELECT current_schema()")).scalar())


def _quoted(connection: Connection, name: str) -> str:
    return connection.dialect.identifier_preparer.quote_identifier(name)
