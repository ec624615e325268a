"""A PostgreSQL server of the tests' own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text


@dataclass(frozen=True)
class Server:
    """``url``: of its first database, as its superuser. ``stop`` is immediate, as by a crash; ``kill`` is SIGKILL for
    all of its processes at once."""

    url: str
    start: Callable[[], None]
    stop: Callable[[], None]
    kill: Callable[[], None]

    def of(self, role: str, url: str = "") -> str:
        """The same for another role."""
        return (url or self.url).replace("kit@", f"{role}@")

    def run(self, *statements: str, url: str = "") -> None:
        engine = create_engine(url or self.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))
        engine.dispose()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("needs postgresql: make system installs it")
    if os.geteuid() != 0:
        pytest.skip("needs root: the server is run as its own user")
    programs = found[-1].parent
    # Not below pytest's own directory, which no other user may enter.
    directory = Path("/tmp") / f"kit-postgresql-{os.getpid()}"
    directory.mkdir()
    shutil.chown(directory, "postgres")
    as_postgres = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]

    def run(program: str, *words: str) -> None:
        subprocess.run([*as_postgres, programs / program, *words], check=True, capture_output=True, cwd="/")

    data = str(directory / "data")
    options = ["-o", f"-k {directory} -c listen_addresses='' -c max_connections=250", "-l", f"{directory}/log"]

    def start() -> None:
        run("pg_ctl", "-D", data, "-w", *options, "start")

    def stop() -> None:
        run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")

    def kill() -> None:
        parent = (Path(data) / "postmaster.pid").read_text().split()[0]
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for pid in (parent, *children):
            os.kill(int(pid), signal.SIGKILL)
        for pid in (parent, *children):
            while _runs(pid):
                os.sched_yield()
        # Until someone has reaped it, a dead server passes for one that runs.
        for lock in (Path(data) / "postmaster.pid", *directory.glob(".s.PGSQL.*.lock")):
            lock.unlink()

    try:
        run("initdb", "-D", data, "-A", "trust", "-U", "kit")
        start()
        try:
            yield Server(f"postgresql+psycopg://kit@/postgres?host={directory}", start, stop, kill)
        finally:
            stop()
    finally:
        shutil.rmtree(directory)


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
    return postgresql.of(name).replace("/postgres?", f"/{name}?")
