"""Tests of foreign file names: each leads to a regular file or to an error line, and none blocks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.core.errors import UsageError
from kit.core.regular import open_regular, read_text
from kit.extra.guest.kernel import machine_of
from kit.host.durable import read_record
from kit.model.event import SampleTaken
from kit.model.session import Session
from kit.store import Outbox, open_store
from kit.store.outbox.outbox import outbox_directory
from tests.command_line import Kit
from tests.nights import night


@pytest.fixture(params=["pipe", "device"])
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What nobody writes to, or what has no end."""
    path = tmp_path / "odd"
    os.mkfifo(path) if request.param == "pipe" else path.symlink_to("/dev/zero")
    return path


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    with open_regular(tmp_path / "file") as file:
        assert file.read() == b"x" * 100_000
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "none")


@pytest.mark.promise(
    "what others wrote", "A pipe or a device in the place of a file is refused, and nothing waits for it."
)
def test_nothing_else_is(odd: Path) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(odd)
    with pytest.raises(UsageError, match="odd: not a regular file"):
        read_text(odd, "")
    with pytest.raises(UsageError, match="odd: not a regular file"):
        machine_of(odd)
    assert read_record(Session, odd) is None
    assert len(os.listdir("/proc/self/fd")) <= descriptors  # less where another test's leftovers were collected


@pytest.mark.promise(
    "what others wrote", "A pipe or a device in the place of a file is refused, and nothing waits for it."
)
@pytest.mark.parametrize("words", [("import",), ("nightly", "--check"), ("compare", "smoke", "--dry-run", "--fs-file")])
def test_commands_say_so(kit: Kit, odd: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    url = f"sqlite:///{tmp_path}/kit.db"
    store = ("--store", url) if words[0] == "import" else ()
    done = kit(*words, odd, *store, timeout=120)
    assert done.returncode == 2 and f"{odd}: not a regular file" in done.stderr, done.stderr


@pytest.mark.promise(
    "what others wrote", "A pipe or a device in the place of a file is refused, and nothing waits for it."
)
def test_an_outbox_that_is_none_stops_no_other(odd: Path, tmp_path: Path, kit: Kit) -> None:
    outbox = outbox_directory(tmp_path / "data")
    outbox.mkdir(parents=True, mode=0o700)
    (tmp_path / "data").chmod(0o700)
    odd.rename(outbox / "20260101-000000-aaaa.jsonl")
    done = kit("sync", KIT_HOME=str(tmp_path), timeout=120)
    assert done.returncode == 1 and "20260101-000000-aaaa, 0 runs: it can't be delivered: " in done.stdout
    session = night(1, 0.1)
    (outbox / "20260101-000000-aaaa.jsonl").rename(outbox / f"{session.id}.jsonl")
    store = open_store(f"sqlite:///{tmp_path}/other.db", tmp_path / "none.db")
    with Outbox(session, store, tmp_path / "data", print) as box:  # then there is memory
        box.create(session)
        box.take(SampleTaken(session.samples[0]))
    assert store.get(session.id).samples == session.samples[:1]
