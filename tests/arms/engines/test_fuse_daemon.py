"""Tests of the search for a FUSE filesystem's daemon, by the arguments and mounts of processes."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from kit.arms.engines.fuse_daemon import move_daemon
from kit.core.errors import RunError
from kit.host.cgroup.cgroup import Cgroup
from kit.host.mounts import Mount

MERGED = "/run/kit/x/fs/ext4/d1-fuse-overlayfs/fuse-overlayfs/8e5f/merged"


class Processes:
    """An engine's processes: their words, and that one filesystem is mounted where all see it."""

    def __init__(self, words: dict[int, list[str]]) -> None:
        self.words = words
        self.moved: list[int] = []

    def pids(self) -> set[int]:
        return {*self.words, 99}  # one has ended since

    def create(self) -> "Processes":
        return self

    def adopt(self, process: int) -> None:
        self.moved.append(process)


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    found = SimpleNamespace(type="fuse.fuse-overlayfs", data="7:0")
    module = "kit.arms.engines.fuse_daemon"

    def mount_of(path: Path, pid: int | str = "self") -> Mount:
        return Mount("0:42" if path == Path("/") else found.data, path, found.type, "", "")

    monkeypatch.setattr(f"{module}.mount_of", mount_of)
    monkeypatch.setattr(
        f"{module}.read_mounts",
        lambda pid: (Mount("0:41", Path("/other/merged"), "fuse", "", ""), Mount("0:42", Path(MERGED), "fuse", "", "")),
    )
    return found


def move(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> object:
    words = {f"/proc/{pid}/cmdline": "\0".join(words).encode() for pid, words in processes.words.items()}

    def read(path: Path) -> bytes:
        if str(path) not in words:
            raise ProcessLookupError(3, "No such process")
        return words[str(path)]

    monkeypatch.setattr(Path, "read_bytes", read)
    group: Cgroup = processes  # type: ignore[assignment]
    return move_daemon(7, group, group, Path("/data"))


@pytest.mark.parametrize("point", [MERGED, "8e5f/merged"])
def test_the_daemon_that_was_given_the_mount_point(
    root: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    options = f"lowerdir=/l/A,upperdir={MERGED.replace('merged', 'diff')}"
    engine = Processes(
        {
            1: ["dockerd", f"--data-root={Path(MERGED).parent}"],
            2: ["fuse-overlayfs", "-o", options, point, ""],
            3: ["fuse-overlayfs", "-o", options, "/other/merged", ""],
            4: [""],
        }
    )
    assert move(engine, monkeypatch) is engine
    assert engine.moved == [2]


def test_a_root_without_fuse_has_no_daemon(root: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    root.type = "overlay"
    assert move(Processes({}), monkeypatch) is None


def test_a_directory_on_fuse_is_not_served_by_the_engine(
    root: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine runs in a container of another engine, whose root is FUSE."""
    root.data = "0:42"
    assert move(Processes({1: ["dockerd"]}), monkeypatch) is None


def test_a_daemon_that_is_not_found_is_an_error(root: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match=r"no process of the engine serves the container's fuse\.fuse-overlayfs"):
        move(Processes({1: ["dockerd"]}), monkeypatch)
