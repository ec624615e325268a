"""Runs that a store refused: none is lost, none is stored twice, the session goes on."""

from __future__ import annotations

import fcntl
import itertools
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kit.core.errors import AwayError, RunError, UsageError
from kit.model.event import Change, FactsKnown, RunFlagged, SampleTaken, StatusChanged
from kit.model.sample import Sample
from kit.model.session import DONE, INTERRUPTED, RUNNING, Session
from kit.store import Outbox, Store, open_store
from kit.store import database as databases
from kit.store.database import Database
from kit.store.outbox import outbox
from kit.store.outbox.events import load_change
from kit.store.outbox.outbox import HEAD as HEAD_LINES
from kit.store.outbox.outbox import whole_lines
from tests.command_line import Kit
from tests.nights import ladder_session

FULL = ladder_session()
HEAD = replace(FULL, status=RUNNING, samples=())


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(databases._WAITING, "sqlite", {"timeout": 0})


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process writes for long."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


def opened(data: Path, said: list[str]) -> Store:
    return open_store("", data / "kit.db", tell=said.append)


def finish(outbox: Outbox, samples: tuple[Sample, ...]) -> None:
    for sample in samples:
        outbox.take(SampleTaken(sample))
    outbox.take(RunFlagged("bare", "", 1, "steal 9%"))
    outbox.take(FactsKnown({"kernel": "7"}, HEAD.not_run))
    outbox.take(StatusChanged(DONE))


def expected() -> Session:
    first = FULL.samples[0]
    assert (first.arm, first.round) == ("bare", 1)
    samples = (replace(first, flags="steal 9%"), *FULL.samples[1:])
    return replace(FULL, facts={"kernel": "7"}, samples=samples)


def test_a_locked_store_is_tried_again_with_each_later_run(tmp_path: Path) -> None:
    said: list[str] = []
    store = opened(tmp_path, said)
    with Outbox(HEAD, store, tmp_path, said.append) as outbox:
        store.create(HEAD)
        outbox.take(SampleTaken(FULL.samples[0]))
        with locked(tmp_path / "kit.db"):
            for sample in FULL.samples[1:4]:
                outbox.take(SampleTaken(sample))
        assert len(store.get(HEAD.id).samples) == 1
        finish(outbox, FULL.samples[4:])
    assert store.get(HEAD.id) == expected()
    assert [*(tmp_path / "outbox").iterdir()] == []
    assert len(said) == 2 and "locked: what is measured waits in" in said[0] and "is back" in said[1]


AWAY = "postgresql+psycopg://kit@127.0.0.1:1/kit"


def test_a_session_begins_and_ends_without_its_server(tmp_path: Path, kit: Kit) -> None:
    said: list[str] = []
    data = tmp_path / "data"
    with Outbox(HEAD, open_store(AWAY, data / "kit.db", patient=True), data, said.append) as outbox:
        outbox.create(HEAD)
        finish(outbox, FULL.samples)
    assert len(said) == 2 and "waits in" in said[0] and "kit sync" in said[1]
    for words, code, says in (
        (("--store", AWAY), 1, f"still waiting: {len(FULL.samples)} runs of 1 session"),
        ((), 1, f"it is for {AWAY}"),
        (("--json",), 1, '"delivered": []'),
    ):
        done = kit("sync", *words, KIT_HOME=str(tmp_path))
        assert done.returncode == code and says in done.stdout and HEAD.id in done.stdout, done.stdout
    with pytest.raises(UsageError, match="refused"):  # what is not begun by a session has nothing to go on with
        open_store(AWAY, data / "kit.db")
    file = data / "outbox" / f"{HEAD.id}.jsonl"
    store = opened(tmp_path / "data", [])
    file.write_bytes(file.read_bytes().replace(AWAY.encode(), store.name.encode()))
    done = kit("sync", KIT_HOME=str(tmp_path))
    assert done.returncode == 0 and "; nothing waits" in done.stdout and store.get(HEAD.id) == expected()
    assert store.results([HEAD.id]), "what it found is worked out when it is delivered"


def left_waiting(data: Path, killed: bool) -> Path:
    """The outbox of a session whose store refused all of it, and whose process has ended."""
    opened(data, []).close()
    with locked(data / "kit.db"):
        child = os.fork()
        if child == 0:
            with Outbox(HEAD, Store(Database(f"sqlite:///{data}/kit.db"), False, print), data, print) as outbox:
                finish(outbox, FULL.samples)
                if killed:
                    os.kill(os.getpid(), signal.SIGKILL)
            os._exit(0)
        os.waitpid(child, 0)
    (file,) = (data / "outbox").iterdir()
    return file


@pytest.mark.promise("another user", "Other users read neither the store, nor what waits for it, nor logs.")
@pytest.mark.parametrize("killed", [False, True])
def test_what_waits_at_the_end_is_delivered_by_the_next_kit_once(tmp_path: Path, killed: bool, kit: Kit) -> None:
    file = left_waiting(tmp_path / "data", killed)
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
    again = file.read_bytes()
    done = kit("sessions", KIT_HOME=str(tmp_path))
    assert f"{len(FULL.samples)} runs of session {HEAD.id} that had waited are stored" in done.stderr
    store = opened(tmp_path / "data", [])
    assert store.get(HEAD.id) == expected() and not file.exists()
    file.write_bytes(again)  # as where the store's word got lost
    said: list[str] = []
    assert opened(tmp_path / "data", said).get(HEAD.id) == expected()
    assert "that had waited" in said[0] and not file.exists()


def test_what_the_store_knows_by_then_stays(tmp_path: Path) -> None:
    store = opened(tmp_path, [])
    with Outbox(HEAD, store, tmp_path, print) as outbox:
        store.create(HEAD)
        outbox.take(FactsKnown({"kernel": "7"}, HEAD.not_run))
        other = sqlite3.connect(tmp_path / "kit.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        outbox.take(SampleTaken(FULL.samples[0]))
    other.close()
    known = replace(HEAD, status=INTERRUPTED, facts={"kernel": "7"}, samples=FULL.samples[:1])
    assert opened(tmp_path, []).get(HEAD.id) == known


def test_a_running_sessions_outbox_is_its_own(tmp_path: Path) -> None:
    said: list[str] = []
    store = opened(tmp_path, said)
    with Outbox(HEAD, store, tmp_path, said.append) as outbox:
        store.create(HEAD)
        with locked(tmp_path / "kit.db"):
            outbox.take(SampleTaken(FULL.samples[0]))
        assert opened(tmp_path, said).get(HEAD.id).samples == ()
    assert store.get(HEAD.id).samples == FULL.samples[:1]


def test_another_stores_outbox_is_left_alone(tmp_path: Path) -> None:
    file = left_waiting(tmp_path, killed=False)
    assert open_store(f"sqlite:///{tmp_path}/other.db", tmp_path / "kit.db").list() == ()
    assert open_store("", tmp_path / "kit.db", read_only=True).list() == () and file.exists()
    assert opened(tmp_path, []).get(HEAD.id) == expected() and not file.exists()


def kill_session(store: Store, data: Path, samples: Sequence[Sample] = ()) -> None:
    """Run a session of this store in a process that SIGKILL ends."""
    child = os.fork()
    if child == 0:
        with Outbox(HEAD, store, data, print) as outbox:
            outbox.create(HEAD)
            for sample in samples:
                outbox.take(SampleTaken(sample))
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.parametrize("count", [0, 2])
def test_whoever_opens_the_store_records_the_end_of_a_killed_session(tmp_path: Path, kit: Kit, count: int) -> None:
    """Of that one alone: neither of one that another machine runs, nor of one that has ended."""
    data = tmp_path / "data"
    store = opened(data, [])
    for name, status in (("elsewhere", RUNNING), ("ended", DONE)):
        store.add(replace(FULL, id=name, status=status))
    kill_session(store, data, FULL.samples[:count])
    assert store.get(HEAD.id).status == RUNNING
    done = kit("sessions", KIT_HOME=str(tmp_path))
    assert f"session {HEAD.id} was killed; it is recorded as interrupted" in done.stderr
    assert INTERRUPTED in next(line for line in done.stdout.splitlines() if line.startswith(HEAD.id))
    assert (store.get("elsewhere").status, store.get("ended").status) == (RUNNING, DONE)
    assert store.get(HEAD.id).samples == FULL.samples[:count] and not [*(data / "outbox").iterdir()]
    assert kit("sessions", KIT_HOME=str(tmp_path)).stderr == ""


def test_kit_clean_records_the_end_of_a_killed_session(tmp_path: Path, kit: Kit) -> None:
    data = tmp_path / "data"
    store = opened(data, [])
    kill_session(store, data)
    done = kit("clean", "--wait", KIT_HOME=str(tmp_path))
    assert f"session {HEAD.id} was killed; it is recorded as interrupted" in done.stdout
    assert store.get(HEAD.id).status == INTERRUPTED
    assert kit("clean", "--wait", KIT_HOME=str(tmp_path)).stdout.splitlines()[-1] == "nothing to clean"


def test_a_session_that_ends_between_a_kill_and_its_record_keeps_its_end(tmp_path: Path) -> None:
    """Whoever resumes it, with the same outbox, may have ended it."""
    store = opened(tmp_path, [])
    kill_session(store, tmp_path)
    store.take(HEAD.id, [StatusChanged(DONE)])
    assert opened(tmp_path, []).get(HEAD.id).status == DONE


def test_a_damaged_outbox_is_named_and_stops_nobody(tmp_path: Path, kit: Kit) -> None:
    directory = tmp_path / "data" / "outbox"
    directory.mkdir(parents=True)
    store = opened(tmp_path / "data", [])
    name = f'{{"store": "{store.name}"}}\n'
    (directory / "a.jsonl").write_text(name + '["sample", {"arm": 1}]\n')
    (directory / "b.jsonl").write_bytes(b"\xff\n\xff\n")
    (directory / "c.jsonl").write_text(name)  # its session was killed before it had begun
    done = kit("sessions", KIT_HOME=str(tmp_path))
    assert done.returncode == 0 and done.stderr.count("can't be delivered") == 2
    assert sorted(path.name for path in directory.iterdir()) == ["a.jsonl", "b.jsonl"]


def test_a_session_is_not_resumed_before_what_it_left_is_stored(tmp_path: Path) -> None:
    file = left_waiting(tmp_path, killed=True)
    store = Store(Database(f"sqlite:///{tmp_path}/kit.db"), False, print)
    with locked(tmp_path / "kit.db"), pytest.raises(RunError, match="still waits"):
        Outbox(HEAD, store, tmp_path, print).__enter__()
    with Outbox(HEAD, store, tmp_path, print) as outbox:
        assert store.get(HEAD.id) == expected()
        with locked(tmp_path / "kit.db"):
            outbox.take(StatusChanged(RUNNING))
    assert store.get(HEAD.id).status == RUNNING and not file.exists()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small filesystem of the test's own."""
    if os.geteuid() != 0:
        pytest.skip("needs root: a tmpfs of the test's own is mounted")
    mounted = tmp_path / "disk"
    mounted.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4M", "kit-test", mounted], check=True)
    try:
        yield mounted
    finally:
        subprocess.run(["umount", mounted], check=True)


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast


def test_a_full_disk_keeps_runs_and_status(disk: Path, kit: Kit) -> None:
    """The outbox took its room when the session began."""
    said: list[str] = []
    store = opened(disk / "data", said)
    with Outbox(HEAD, store, disk / "data", said.append) as outbox:
        store.create(HEAD)
        ballast = fill(disk)
        finish(outbox, FULL.samples)
    assert "full: what is measured waits in" in said[0] and "delivers them" in said[-1]
    ballast.unlink()
    assert kit("sessions", KIT_HOME=str(disk)).returncode == 0
    assert store.get(HEAD.id) == expected()
    store.close()


def test_what_not_even_the_outbox_can_keep_is_held_in_memory_and_said(disk: Path) -> None:
    said: list[str] = []
    store = opened(disk / "data", said)
    ballast = fill(disk)
    with Outbox(HEAD, store, disk / "data", said.append) as outbox:
        ballast.unlink()
        store.create(HEAD)
        ballast = fill(disk)
        outbox.take(SampleTaken(FULL.samples[0]))
        assert "in memory alone" in said[-1] and "Free space" in said[-1]
        ballast.unlink()
        outbox.take(SampleTaken(FULL.samples[1]))
        assert store.get(HEAD.id).samples == FULL.samples[:2]
        fill(disk)
        outbox.take(SampleTaken(FULL.samples[2]))
    assert said[-1].startswith(f"NOT STORED: 1 runs of session {HEAD.id}")
    assert outbox.lost == 1
    store.close()


class ServerThatIsAway:
    name, remote = "postgresql://away", True

    def take(self, session_id: str, changes: Sequence[Change]) -> None:
        raise AwayError("away", "wait")


@pytest.mark.parametrize("writes", [1, 2])
def test_who_is_killed_while_a_round_is_kept_has_all_of_it_or_nothing(tmp_path: Path, writes: int) -> None:
    """Half of one would count beside the whole that is made in its place."""
    child = os.fork()
    if not child:
        try:
            with Outbox(HEAD, ServerThatIsAway(), tmp_path, lambda text: None) as outbox:
                done = itertools.count(1)
                os.fdatasync = lambda file: os._exit(0) if next(done) == writes else None  # type: ignore[assignment]
                for round_ in (1, 2):
                    outbox.take(*(SampleTaken(sample) for sample in FULL.samples if sample.round == round_))
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    lines = whole_lines((tmp_path / "outbox" / f"{HEAD.id}.jsonl").read_bytes())[HEAD_LINES:]
    found = [(it.sample.round, it.sample.arm) for it in map(load_change, lines) if isinstance(it, SampleTaken)]
    rounds = {round_ for round_, _ in found}
    assert found == [(item.round, item.arm) for item in FULL.samples if item.round in rounds] and found


def test_a_file_that_fails_after_the_store_took_all_ends_nothing(tmp_path: Path) -> None:
    """It goes, or the next kit would deliver again what it holds."""
    said: list[str] = []
    store = opened(tmp_path, said)
    with Outbox(HEAD, store, tmp_path, said.append) as outbox:
        store.create(HEAD)
        with locked(tmp_path / "kit.db"):
            outbox.take(SampleTaken(FULL.samples[0]))
        assert outbox._file
        os.close(outbox._file._file)
        outbox._file._file = os.open(tmp_path / "outbox" / f"{HEAD.id}.jsonl", os.O_RDONLY)  # it can't be written
        finish(outbox, FULL.samples[1:])
    assert store.get(HEAD.id) == expected() and "no longer used" in said[1 + 1]
    assert [*(tmp_path / "outbox").iterdir()] == []


def test_a_file_that_was_delivered_and_removed_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening it and locking it another kit may have delivered it."""
    store, path, times = opened(tmp_path, []), tmp_path / "outbox" / f"{HEAD.id}.jsonl", []
    flock = fcntl.flock

    def late(file: int, how: int) -> None:
        times.append(how)
        if len(times) == 1:
            path.unlink()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with Outbox(HEAD, store, tmp_path, lambda text: None) as outbox, locked(tmp_path / "kit.db"):
        outbox.take(SampleTaken(FULL.samples[0]))
    assert len(times) == 2 and path.read_bytes().count(b"\n") == 3


def test_a_session_that_another_process_runs_is_refused_and_one_that_is_delivered_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, directory = opened(tmp_path, []), tmp_path / "outbox"
    directory.mkdir()
    with (directory / f"{HEAD.id}.jsonl").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        monkeypatch.setattr(outbox, "_HELD", 0.0)
        with pytest.raises(RunError, match=r"is running: another process has .*jsonl"), opened_outbox(store, tmp_path):
            pass
        monkeypatch.setattr(outbox, "_HELD", 60.0)
        monkeypatch.setattr("time.sleep", lambda seconds: fcntl.flock(other, fcntl.LOCK_UN))
        with opened_outbox(store, tmp_path):
            assert (directory / f"{HEAD.id}.jsonl").stat().st_size


def opened_outbox(store: Store, data: Path) -> Outbox:
    return Outbox(HEAD, store, data, lambda text: None)
