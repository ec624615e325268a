"""Tests of a store that is killed, shared, damaged, badly named or given odd data."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import Engine

from kit.core.errors import KitError, UsageError
from kit.store import open_store
from tests.command_line import Kit
from tests.nights import ladder_session, night

#: Every statement, and six pairs; in the loop of seconds (profile quick) one of ten, and two.
STRIDE = max(1, 100 // settings().max_examples)
PAIRS = min(6, settings().max_examples // 5)


def forked(act: Callable[[], None]) -> int:
    """The exit status of a process that does this, and ends without cleaning up."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def killed_at(statement: int, act: Callable[[], None]) -> Callable[[], None]:
    """Killed by SIGKILL before the statement of that number reaches the database; one it does not come to, never."""

    def run() -> None:
        seen = 0

        def count(*_: Any) -> None:
            nonlocal seen
            seen += 1
            if seen == statement:
                os.kill(os.getpid(), signal.SIGKILL)

        event.listen(Engine, "before_cursor_execute", count)
        act()

    return run


def test_a_store_killed_at_any_statement_opens_again(tmp_path: Path) -> None:
    one = night(1, 0.1, rounds=1)
    for statement in range(1, 200, STRIDE):
        path = tmp_path / str(statement) / "kit.db"
        status = forked(killed_at(statement, lambda path=path: open_store("", path).close()))  # type: ignore[misc]
        store = open_store("", path)
        store.add(one)
        assert [item.id for item in store.list()] == [one.id], statement
        store.close()
        if status == 0:
            break
    assert statement > 5 and status == 0


def test_a_store_left_half_made_opens(tmp_path: Path) -> None:
    open_store("", tmp_path / "kit.db").close()
    with create_engine(f"sqlite:///{tmp_path}/kit.db").begin() as connection:
        connection.execute(text("DELETE FROM kit_schema"))
        connection.execute(text("DROP TABLE kit_outcomes"))
    open_store("", tmp_path / "kit.db").add(night(1, 0.1))


def test_pairs_that_open_one_new_store_at_once_all_succeed(tmp_path: Path) -> None:
    context = get_context("fork")
    for pair in range(PAIRS):
        path, gate = tmp_path / str(pair) / "kit.db", context.Barrier(2)

        def opener(number: int, path: Path = path, gate: Any = gate) -> None:
            gate.wait()
            open_store("", path).add(night(number, 0.1))

        both = [context.Process(target=opener, args=(number,)) for number in (1, 2)]
        for process in both:
            process.start()
        for process in both:
            process.join()
        assert [process.exitcode for process in both] == [0, 0]
        assert len(open_store("", path).list()) == 2


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.promise("another user", "Other users read neither the store, nor what waits for it, nor logs.")
def test_others_can_not_read_the_store(tmp_path: Path) -> None:
    data = tmp_path / "home" / "data"
    before = os.umask(0)
    try:
        open_store("", data / "kit.db").close()
        assert (mode(data), mode(data / "kit.db")) == (0o700, 0o600)
        data.chmod(0o755)
        (data / "kit.db").chmod(0o644)
        open_store("", data / "kit.db").close()  # what a user has opened stays so
        assert (mode(data), mode(data / "kit.db")) == (0o755, 0o644)
        open_store(f"sqlite:///{tmp_path}/mine.db", data / "kit.db").close()
        assert mode(tmp_path / "mine.db") == 0o600
        (tmp_path / "mine.db").chmod(0o640)  # what a user gives to a group stays so
        open_store(f"sqlite:///{tmp_path}/mine.db", data / "kit.db").close()
        assert mode(tmp_path / "mine.db") == 0o640
    finally:
        os.umask(before)


@pytest.mark.parametrize("damage", ["no database", "pages", "cut", "no tables"])
def test_a_damaged_store_is_one_line_with_a_fix(damage: str, tmp_path: Path, kit: Kit) -> None:
    path = tmp_path / "data" / "kit.db"
    store = open_store("", path)
    for number in range(5):
        store.add(night(number, 0.1))
    store.close()
    content = path.read_bytes()
    if damage == "no database":
        path.write_bytes(b"not a database" * 1000)
    elif damage == "pages":
        path.write_bytes(content[:4096] + os.urandom(len(content) - 4096))
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        with create_engine(f"sqlite:///{path}").begin() as connection:
            connection.execute(text("DROP TABLE kit_sessions"))
    with pytest.raises(KitError) as found:
        store = open_store("", path)
        store.get(store.list()[0].id)
        store.add(ladder_session())
    assert "\n" not in found.value.message and str(path) in found.value.message
    assert "sqlite3" in found.value.hint and "move" in found.value.hint


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://me:secret@host:port/kit",
        "postgresql+psycopg://me:secret@127.0.0.1:99999/kit",
        "postgresql+psycopg://me:secret@127.0.0.1:1/kit?nosuch=1",
        "sqlite:///{}/kit.db?nosuch=1",
        "sqlite:///{}/kit.db?timeout=soon",
        "sqlite:///{}",
        "sqlite:///{}/a\0b.db",
        "postgresql+psycopg://[::1/kit",
        "sqlite+nosuch:///x",
        "://",
    ],
)
def test_a_store_url_that_is_wrong_is_one_line(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"^--store ") as found:
        open_store(url.format(tmp_path), tmp_path / "kit.db")
    assert "\n" not in found.value.message and "secret" not in found.value.message and found.value.hint
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("url", ["u:hunter2@host/db", "hunter2", "postgresql://u:hun ter2@h:x/hunter2"])
def test_an_invalid_store_url_is_not_printed(url: str, tmp_path: Path) -> None:
    with pytest.raises(KitError) as failure:
        open_store(url, tmp_path / "kit.db")
    assert "ter2" not in str(failure.value) and "not the URL of a database" in failure.value.message


def test_what_sqlalchemy_says_of_a_url_is_printed_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(KitError, match=r"--store sqlite\+nosuch://u:\*\*\*@h/db: .*nosuch"):
        open_store("sqlite+nosuch://u:hunter2@h/db", tmp_path / "kit.db")
