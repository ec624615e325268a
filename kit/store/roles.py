"""Who may do what in a shared store: PostgreSQL's roles. The owner may all; grants are as narrow as a kit needs.

A writer adds sessions and runs and can neither change nor delete a figure; a reader reads."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, text

from kit.core.errors import UsageError
from kit.store.schema import metadata, samples, schema, sessions
from kit.store.views import VIEWS

WRITER, READER = "writer", "reader"
KINDS = (WRITER, READER)

#: What of a session changes while it runs, and nothing else: its state, and which runs something outside has hit.
_CHANGED = {sessions.name: ("status", "facts", "not_run"), samples.name: ("flags",)}


@dataclass(frozen=True)
class Roles:
    """Roles of a store, by what they may do."""

    owner: str
    writers: tuple[str, ...]
    readers: tuple[str, ...]


def grant(connection: Connection, role: str, kind: str) -> None:
    """Give a role the rights of that kind, and take others that it had. Raises UsageError where there is no such role,
    or the database has none."""
    _check(connection)
    if not connection.execute(text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": role}).first():
        quoted = _quoted(connection, role)
        raise UsageError(
            f"the server has no role {role!r}", f"as its administrator: CREATE ROLE {quoted} LOGIN PASSWORD …"
        )
    if role == members(connection).owner:
        raise UsageError(f"{role!r} owns the store: it may all that there is", "grant to another role")
    to = _quoted(connection, role)
    for statement in _statements(kind):
        connection.exec_driver_sql(statement.format(role=to, schema=_quoted(connection, _schema(connection))))


def _statements(kind: str) -> list[str]:
    tables = [table.name for table in metadata.sorted_tables]
    everything = ", ".join([*tables, *VIEWS])
    sequence = f"{samples.name}_id_seq"
    made = [
        f"REVOKE ALL ON {everything} FROM {{role}}",
        f"REVOKE ALL ON SEQUENCE {sequence} FROM {{role}}",
        "GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT SELECT ON {everything} TO {{role}}",
    ]
    if kind == WRITER:
        made.append(f"GRANT INSERT ON {', '.join(name for name in tables if name != schema.name)} TO {{role}}")
        made.append(f"GRANT USAGE ON SEQUENCE {sequence} TO {{role}}")
        made += [f"GRANT UPDATE ({', '.join(names)}) ON {table} TO {{role}}" for table, names in _CHANGED.items()]
    return made


def grant_again(connection: Connection) -> None:
    """To whoever had rights, also on what a migration has added."""
    if connection.dialect.name != "postgresql":
        return
    found = members(connection)
    for kind, roles in ((WRITER, found.writers), (READER, found.readers)):
        for role in roles:
            grant(connection, role, kind)


def members(connection: Connection) -> Roles:
    """Raises UsageError where the database has no roles."""
    _check(connection)
    owner = connection.execute(
        text("SELECT tableowner FROM pg_tables WHERE tablename = :table AND schemaname = current_schema()"),
        {"table": samples.name},
    ).scalar()
    rights: dict[str, set[str]] = {}
    granted = text(
        "SELECT grantee, privilege_type FROM information_schema.role_table_grants "
        "WHERE table_name = :table AND table_schema = current_schema() AND grantee <> 'PUBLIC'"
    )
    for role, right in connection.execute(granted, {"table": samples.name}):
        rights.setdefault(role, set()).add(right)
    rights.pop(str(owner), None)
    writers = tuple(sorted(role for role, found in rights.items() if "INSERT" in found))
    return Roles(str(owner), writers, tuple(sorted(rights.keys() - set(writers))))


def _check(connection: Connection) -> None:
    if connection.dialect.name != "postgresql":
        raise UsageError("SQLite has no roles: who may read and write is said by its file's mode", "chmod, chown")


def _schema(connection: Connection) -> str:
    return str(connection.execute(text("SELECT current_schema()")).scalar())


def _quoted(connection: Connection, name: str) -> str:
    return connection.dialect.identifier_preparer.quote_identifier(name)
