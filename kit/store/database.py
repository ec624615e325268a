"""The store's database: opened, and created in one transaction; and the meaning of its errors."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import NullPool

from kit.core.errors import AwayError, RunError, UsageError
from kit.core.redact import HIDDEN
from kit.store.schema.make import check_version, make_schema, version_of

#: Seconds to wait for a database that another process has locked, or a server that doesn't answer.
PATIENCE = 10
_EXAMPLE = "use for example sqlite:////path/kit.db or postgresql+psycopg://host/db"
_POSTGRESQL = {"connect_timeout": PATIENCE, "tcp_user_timeout": 3000 * PATIENCE}
#: Driver options for that time, if the URL does not set one.
_WAITING: dict[str, dict[str, int]] = {
    "sqlite": {"timeout": PATIENCE},
    "sqlite+pysqlite": {"timeout": PATIENCE},
    "postgresql+psycopg": _POSTGRESQL,
    "postgresql+psycopg2": _POSTGRESQL,
}
#: Options of Python's module; SQLAlchemy silently ignores others.
_SQLITE_OPTIONS = {"timeout", "detect_types", "isolation_level", "check_same_thread", "cached_statements"}
#: Marks connections whose transactions write.
_WRITES = "kit_writes"


class Database:
    """An open database of the current schema. ``writing`` and ``reading`` are transactions: all of it, or nothing.

    They raise RunError where the database is gone, damaged or refuses.
    """

    def __init__(self, url: str, patient: bool = False, make: bool = True) -> None:
        """Raises UsageError if the database can't be opened. ``patient``: for a long session: the server may come up
        later, and no connection stays open meanwhile. ``make``: make the tables of a new store."""
        self._ready = False
        self._make = make
        scheme, separator, _ = url.partition("://")
        safe_url = f"{scheme}{separator}…" if separator else "…"
        try:
            parsed = make_url(url)
        except (ArgumentError, TypeError, ValueError):  # what can't be parsed may hold a password anywhere
            raise UsageError(f"--store {safe_url}: not the URL of a database", _EXAMPLE) from None
        safe_url = _shown(parsed)
        try:
            self._engine = _engine(parsed, patient)
            self._prepare()
        except DBAPIError as error:
            if patient and self._is_away(error):
                return
            message, hint = refusal(error, f"--store {safe_url}")
            raise UsageError(message, hint or "check path, rights and server") from None
        except (ArgumentError, NoSuchModuleError, ImportError, TypeError, ValueError) as error:
            reason = _line(error)
            if parsed.password:
                reason = reason.replace(parsed.password, HIDDEN)
            raise UsageError(f"--store {safe_url}: {reason}", _EXAMPLE) from None

    @property
    def name(self) -> str:
        """Return the location, without a password."""
        return _shown(self._engine.url)

    @property
    def remote(self) -> bool:
        return self._engine.dialect.name != "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._told():
            self._prepare()
            with self._engine.begin() as connection:
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._told():
            self._prepare()
            with self._writer().begin() as connection:
                yield connection

    def compact(self) -> None:
        """Give the space of removed rows back to the filesystem, if nobody else uses the file now. A server does so
        itself."""
        if not self.remote:
            with closing(self._engine.raw_connection()) as connection, suppress(sqlite3.OperationalError):
                connection.driver_connection.execute("VACUUM")  # type: ignore[union-attr]

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            message, hint = refusal(error, f"the store {self.name}")
            hint = hint or "check path, disk and server, and run the command again; kit sync delivers runs that wait"
            raise (AwayError if self._is_away(error) else RunError)(message, hint) from None

    def _is_away(self, error: DBAPIError) -> bool:
        """Return whether a server does not answer now, so that the request may be repeated."""
        reason = error.orig
        if not isinstance(error, OperationalError) or isinstance(reason, sqlite3.Error):
            return False
        state = getattr(reason, "sqlstate", None)
        if state:
            return str(state).startswith(_PASSING)
        words = _NAMES.sub("", str(reason))  # of a failed connection, the driver has no more
        if _OF_SERVER.search(words):
            return bool(_FULL.search(words)) or not _accepts_connections(self._engine)
        return not _TURNED_AWAY.search(words)

    def _writer(self) -> Engine:
        return self._engine.execution_options(**{_WRITES: True})

    def _prepare(self) -> None:
        """Make the tables of a new or half-made store. Raises UsageError for the store of another kit."""
        if self._ready:
            return
        with self._engine.begin() as connection:
            version = version_of(connection)
        if version is not None:
            check_version(version)
        elif self._make:
            try:
                with self._writer().begin() as connection:
                    make_schema(connection)
            except DBAPIError as error:
                if not _is_denied(error):
                    raise
                role = self._engine.url.username or "this role"
                raise UsageError(
                    f"the store {self.name} has no tables yet, and {role} may not make them",
                    "run kit store setup --store URL as the store's owner",
                ) from None
        self._ready = True


def check_database(url: str) -> str:
    """Check that a store can be opened, or made where it is missing; nothing is made. Return its name. Raises
    UsageError."""
    with suppress(ArgumentError, TypeError, ValueError):
        parsed = make_url(url)
        path = Path(parsed.database or "")
        plain = parsed.get_backend_name() == "sqlite" and parsed.database not in (None, "", ":memory:")
        if plain and not str(path).startswith("file:") and not path.exists():
            if not path.parent.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
                fix = "name a file in a directory that you may write to"
                raise UsageError(f"--store {_shown(parsed)}: {path.parent.absolute()} is missing or not writable", fix)
            return _shown(parsed)
    database = Database(url, make=False)
    database.close()
    return database.name


def _engine(url: URL, patient: bool) -> Engine:
    unknown = sorted(set(url.query) - _SQLITE_OPTIONS)
    if unknown and url.get_backend_name() == "sqlite" and "uri" not in url.query:
        raise ValueError(f"unknown option '{unknown[0]}'; SQLite's own go with sqlite:///file:PATH?…&uri=true")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise ValueError(f"the kit keeps no store in {url.get_backend_name()}")
    waiting = {key: value for key, value in _WAITING.get(url.drivername, {}).items() if key not in url.query}
    if patient and url.get_backend_name() != "sqlite":
        # A session is silent for most of its hours; a thousand of them need not keep a thousand connections.
        return create_engine(url, poolclass=NullPool, connect_args=waiting)
    engine = create_engine(url, pool_pre_ping=True, connect_args=waiting)
    if engine.dialect.name == "sqlite":
        _make_private(url)
        event.listen(engine, "connect", _durable)
        event.listen(engine, "begin", _begin)
    return engine


def _make_private(url: URL) -> None:
    """Make a new file readable by its owner alone; SQLite gives its journals the same mode."""
    if url.database and url.database != ":memory:" and not url.database.startswith("file:"):
        with suppress(OSError):  # that exists, or can't be made, which SQLite says
            os.close(os.open(url.database, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _durable(connection: Any, record: Any) -> None:
    """Set SQLite to fsync on every commit, and to check foreign keys, which are off by default. Python's module begins
    no transaction before CREATE or SELECT. So it is set to begin none at all; ``_begin`` does."""
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Connection) -> None:
    """Lock at the beginning of a transaction that will write: two that read first and write then would both be
    refused."""
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


#: Names of hosts, databases and roles in a message.
_NAMES = re.compile(r'"[^"]*"')
#: The severity that precedes a server's own message: in the server's language, as is the message.
_OF_SERVER = re.compile(r"\w:  ")
#: A server's English messages about what passes: no connection is left, or it starts or stops.
_FULL = re.compile(r"too many|connection slots|starting up|shutting down|recovery|not (yet )?accepting")
#: Messages of libpq's, always English, about a connection that will fail again.
_TURNED_AWAY = re.compile(
    r"authentication|no password|does not exist|permission denied|required|certificate|invalid", re.I
)
#: Classes of PostgreSQL's temporary errors: lost connections, too many of them, servers that stop or start.
_PASSING = ("08", "53", "57P")


def _accepts_connections(engine: Engine) -> bool:
    """Return whether the server would let someone in, whom it refused before; libpq asks it without words."""
    try:
        from psycopg.conninfo import make_conninfo
        from psycopg.pq import PGconn, Ping
    except ImportError:  # with psycopg2 alone
        return True
    _, arguments = engine.dialect.create_connect_args(engine.url)
    waiting = {**_POSTGRESQL, **arguments}
    words: dict[str, Any] = {name: value for name, value in waiting.items() if isinstance(value, str | int)}
    return PGconn.ping(make_conninfo(**words).encode()) == Ping.OK


def _is_denied(error: DBAPIError) -> bool:
    """Return whether the role lacks a right."""
    return getattr(error.orig, "sqlstate", None) == "42501"


def refusal(error: DBAPIError, where: str) -> tuple[str, str]:
    """Return one line for an error of the database, and its fix; '' if the caller names the fix."""
    message, reason = f"{where}: {_line(error.orig or error)}", error.orig
    if _is_denied(error):
        diagnostics = getattr(reason, "diag", None)
        if diagnostics and diagnostics.message_hint:  # of a trigger of the store's: the rest is where in it
            return f"{where}: {diagnostics.message_primary}", diagnostics.message_hint
        return message, "run kit store grant writer ROLE, or reader, as its owner: kit store --help"
    if not isinstance(reason, sqlite3.Error):
        return message, ""
    kind = getattr(reason, "sqlite_errorname", "")
    if kind in ("SQLITE_CORRUPT", "SQLITE_NOTADB") or str(reason).startswith("no such "):
        return message, "move the damaged file away, and recover what can be read: sqlite3 OLD .recover | sqlite3 NEW"
    return message, "free space on its disk" if kind.startswith("SQLITE_FULL") else ""


def _shown(url: URL) -> str:
    return url.difference_update_query(["password", "sslpassword"]).render_as_string(hide_password=True)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
