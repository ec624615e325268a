"""A PostgreSQL server of the tests' own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

_AS_POSTGRES = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--")


@dataclass(frozen=True)
class Server:
    """``directory``: of its data, its log and its socket; ``programs``: of PostgreSQL's own."""

    directory: Path
    programs: Path

    @property
    def url(self) -> str:
        """Of its first database, as its superuser."""
        return f"postgresql+psycopg://kit@/postgres?host={self.directory}"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def call(self, program: str, *words: str) -> None:
        command: list[str | Path] = [*_AS_POSTGRES, self.programs / program, "-D", self.data, *words]
        # For a server whose lc_messages is not C.
        environment = {**os.environ, "LANGUAGE": "de"}
        subprocess.run(command, check=True, capture_output=True, cwd="/", env=environment)

    def start(self) -> None:
        options = f"-k {self.directory} -c listen_addresses='' -c max_connections=250"
        self.call("pg_ctl", "-w", "-o", options, "-l", f"{self.directory}/log", "start")

    def stop(self) -> None:
        """At once, as by a crash."""
        self.call("pg_ctl", "-w", "-m", "immediate", "stop")

    def kill(self) -> None:
        """All of its processes, by SIGKILL."""
        parent = (self.data / "postmaster.pid").read_text().split()[0]
        listed = [parent, *Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
        for pid in listed:
            os.kill(int(pid), signal.SIGKILL)
        while any(map(_runs, listed)):
            os.sched_yield()
        # Until someone has reaped it, a dead server passes for one that runs.
        for lock in (self.data / "postmaster.pid", *self.directory.glob(".s.PGSQL.*.lock")):
            lock.unlink()

    def run(self, *statements: str) -> None:
        engine = create_engine(self.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))
        engine.dispose()


@contextmanager
def running_server(directory: Path) -> Iterator[Server]:
    """A server that runs for the length of the round, as the user postgres, in a new directory that any user may
    reach. Raises FileNotFoundError where PostgreSQL is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        raise FileNotFoundError("initdb")
    server = Server(directory, found[-1].parent)
    server.directory.mkdir()
    shutil.chown(server.directory, "postgres")
    try:
        server.call("initdb", "-A", "trust", "-U", "kit", "--lc-messages=C")
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(server.directory)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the server is run as its own user")
    with ExitStack() as stack:
        try:
            # Not below pytest's own directory, which no other user may enter.
            started = stack.enter_context(running_server(Path("/tmp") / f"kit-postgresql-{os.getpid()}"))
        except FileNotFoundError:
            pytest.skip("needs postgresql: make system installs it")
        yield started


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def server(postgresql: Server) -> str:
    """Its URL."""
    return postgresql.url


_NUMBER = count(1)


@pytest.fixture
def database(postgresql: Server) -> str:
    """The URL of an empty database, for its owner, a role that is no superuser."""
    name = f"kit{next(_NUMBER)}"
    postgresql.run(f"CREATE ROLE {name} LOGIN", f"CREATE DATABASE {name} OWNER {name}")
    return postgresql.url.replace("kit@/postgres?", f"{name}@/{name}?")
