"""The database that a store is in: reached, made or brought up to date in one transaction, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, inspect, make_url, select, text, update
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from kit.core.errors import KitError, RunError, UsageError
from kit.store.schema import SCHEMA_VERSION, metadata, migrate, schema

#: Seconds for which a database that another process has locked, or a server that doesn't answer, is waited for.
PATIENCE = 10
_EXAMPLE = "for example sqlite:////path/kit.db or postgresql+psycopg://host/db"
_POSTGRESQL = {"connect_timeout": PATIENCE, "tcp_user_timeout": 3000 * PATIENCE}
#: What makes each driver wait so long, where the URL does not say how long.
_WAITING: dict[str, dict[str, int]] = {
    "sqlite": {"timeout": PATIENCE},
    "sqlite+pysqlite": {"timeout": PATIENCE},
    "postgresql+psycopg": _POSTGRESQL,
    "postgresql+psycopg2": _POSTGRESQL,
}
#: What Python's module takes; SQLAlchemy drops others in silence.
_SQLITE_OPTIONS = {"timeout", "detect_types", "isolation_level", "check_same_thread", "cached_statements"}
#: Marks connections whose transactions write.
_WRITES = "kit_writes"


class Database:
    """An open database of the current schema. ``writing`` and ``reading`` are transactions: all of it, or nothing.

    They raise RunError where the database is gone, damaged or refuses.
    """

    def __init__(self, url: str) -> None:
        """Raises UsageError where it can't be opened."""
        scheme, separator, _ = url.partition("://")
        shown = f"{scheme}{separator}…" if separator else "…"  # what can't be parsed may hold a password anywhere
        try:
            parsed = make_url(url)
            shown = _shown(parsed)
            self._engine = _engine(parsed)
            self._prepare()
        except DBAPIError as error:
            message, hint = refusal(error, f"--store {shown}")
            raise UsageError(message, hint or "check path, rights and server") from None
        except (ArgumentError, NoSuchModuleError, ImportError, TypeError, ValueError) as error:
            raise UsageError(f"--store {shown}: {_line(error)}", _EXAMPLE) from None

    @property
    def name(self) -> str:
        """Where it is, without a password."""
        return _shown(self._engine.url)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._told(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._told(), self._writer().begin() as connection:
            yield connection

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            message, hint = refusal(error, f"the store {self.name}")
            hint = hint or "what was stored is safe; when the store is back: kit compare --resume last"
            raise RunError(message, hint) from None

    def _writer(self) -> Engine:
        return self._engine.execution_options(**{_WRITES: True})

    def _prepare(self) -> None:
        """One that is new, or left half made, is made; an old one is brought up to date."""
        with self._engine.begin() as connection:
            if inspect(connection).has_table(schema.name) and _version(connection) == SCHEMA_VERSION:
                return
        with self._writer().begin() as connection:
            if connection.dialect.name == "postgresql":  # two machines may come to an empty store at once
                connection.execute(text("SELECT pg_advisory_xact_lock(7210451)"))
            _upgrade(connection)


def _upgrade(connection: Connection) -> None:
    version = _version(connection) if inspect(connection).has_table(schema.name) else None
    if version is None:  # without a version nothing was ever stored in it
        metadata.create_all(connection)
        connection.execute(insert(schema).values(version=SCHEMA_VERSION))
        return
    if version > SCHEMA_VERSION:
        raise KitError(f"the store has schema {version}, this kit knows {SCHEMA_VERSION}", "update the kit")
    for number in range(version + 1, SCHEMA_VERSION + 1):
        migrate(connection, number)
        connection.execute(update(schema).values(version=number))


def _version(connection: Connection) -> int | None:
    return connection.execute(select(schema.c.version)).scalar()


def _engine(url: URL) -> Engine:
    unknown = sorted(set(url.query) - _SQLITE_OPTIONS)
    if unknown and url.get_backend_name() == "sqlite" and "uri" not in url.query:
        raise ValueError(f"unknown option '{unknown[0]}'; SQLite's own go with sqlite:///file:PATH?…&uri=true")
    waiting = {key: value for key, value in _WAITING.get(url.drivername, {}).items() if key not in url.query}
    # A session may be silent for hours: the connection is tried before it is used again.
    engine = create_engine(url, pool_pre_ping=True, connect_args=waiting)
    if engine.dialect.name == "sqlite":
        _make_private(url)
        event.listen(engine, "connect", _durable)
        event.listen(engine, "begin", _begin)
    return engine


def _make_private(url: URL) -> None:
    """A new file is its owner's alone; SQLite gives its journals the same mode."""
    if url.database and url.database != ":memory:" and not url.database.startswith("file:"):
        with suppress(OSError):  # that is there, or can't be made, which SQLite says
            os.close(os.open(url.database, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _durable(connection: Any, record: Any) -> None:
    """SQLite: fsync on every commit, and foreign keys, which it leaves off by default. Python's module begins no
    transaction before CREATE or SELECT: it is told to begin none at all, ``_begin`` does."""
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Connection) -> None:
    """One that will write takes the lock at once: two that read first and write then would both be refused."""
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def refusal(error: DBAPIError, where: str) -> tuple[str, str]:
    """One line for an error of the database, and what mends it; '' where that is the caller's to say."""
    message, reason = f"{where}: {_line(error.orig or error)}", error.orig
    if not isinstance(reason, sqlite3.Error):
        return message, ""
    kind = getattr(reason, "sqlite_errorname", "")
    if kind in ("SQLITE_CORRUPT", "SQLITE_NOTADB") or str(reason).startswith("no such "):
        return message, "it is damaged: move it away, and what can be read of it: sqlite3 OLD .recover | sqlite3 NEW"
    return message, "free space on its disk" if kind.startswith("SQLITE_FULL") else ""


def _shown(url: URL) -> str:
    return url.difference_update_query(["password", "sslpassword"]).render_as_string(hide_password=True)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
