"""The end of an arm whose filesystem a daemon serves, and the CPUs of an arm."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from kit.arms.engines.sandbox import Sandbox
from kit.arms.filesystem import Backing
from kit.arms.probe import Probe
from kit.host.cgroup.cgroup import Cgroup


class Noted:
    """A control group or a probe that notes what is done to it."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name = name
        self.told = told

    def thaw(self) -> None:
        self.told.append(f"thaw {self.name}")

    def kill(self) -> None:
        self.told.append(f"kill {self.name}")

    def end(self) -> None:
        self.told.append(f"end {self.name}")


def test_a_daemon_runs_before_its_clients_end(tmp_path: Path) -> None:
    """A process that dies closes its files, and waits in the kernel for the daemon's answer."""
    told: list[str] = []
    work, daemons = (cast(Cgroup, Noted(name, told)) for name in ("work", "daemons"))
    backing = Backing("fake", tmp_path, "fake", "fake", "", None)
    probe = cast(Probe, Noted("probe", told))
    sandbox = Sandbox("/t", "/i", work, backing, probe, lambda path: None, lambda: "", {}, daemons=daemons)
    sandbox.end()
    assert told[:2] == ["thaw daemons", "end probe"]
    assert told[-1] == "kill work"


class Growing:
    """A control group that has two processes at first, and one more whenever it is looked at again."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._looks = 1

    def pids(self) -> set[int]:
        self._looks += 1
        return {*self._pids[: self._looks]}


@pytest.fixture
def sleeping() -> Iterator[list[int]]:
    """Return the PIDs of a process that has ended, and of two that have not."""
    processes = [subprocess.Popen(["sleep", seconds]) for seconds in ("0", "60", "60")]
    processes[0].wait()
    yield [process.pid for process in processes]
    for process in processes:
        process.kill()
        process.wait()


def test_what_starts_or_ends_meanwhile_is_pinned_too(sleeping: list[int], tmp_path: Path) -> None:
    work, probe = cast(Cgroup, Growing(sleeping)), cast(Probe, Noted("probe", []))
    backing = Backing("fake", tmp_path, "fake", "fake", "", None)
    last = {max(os.sched_getaffinity(0))}
    Sandbox("/t", "/i", work, backing, probe, lambda path: None, lambda: "", {}).pin(last)
    assert [os.sched_getaffinity(pid) for pid in sleeping[1:]] == [last, last]
