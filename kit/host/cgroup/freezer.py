"""Freezes and thaws control groups: by cgroup v2's freezer, or by v1's if the group is not in v2's hierarchy. Also
tells whether groups wait for something outside them.

A frozen process keeps its sockets, locks and pages, and gets no CPU. A group is frozen when all its processes are. A
process that waits in the kernel, for its disk or for a FUSE daemon, is frozen after the answer has come
(Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/freezer-subsystem.rst)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import MachineError, RunError
from kit.host.cgroup.cgroup import UNIFIED, Cgroup

#: Seconds after which a group that does not freeze is an error: the kernel's own limit before it warns of a hung task.
_PATIENCE = 120.0
#: Seconds after which a group that is not frozen yet is thawed, and seconds until it is frozen again.
_TRY, _PAUSE = 1.0, 0.1
#: Seconds between two checks: the first and the longest.
_FIRST_LOOK, _LONGEST_LOOK = 0.0001, 0.002


@dataclass(frozen=True)
class Freezer:
    """Freezes several groups as one."""

    # In the order of freezing: a process that waits for an answer from another group freezes only after that answer, so
    # clients come before their servers
    switches: tuple[Switch, ...]

    @classmethod
    def of(cls, *groups: Cgroup) -> Freezer:
        """Raises MachineError if a group is in no hierarchy that can freeze it."""
        return cls(tuple(Switch.of(group) for group in groups))

    def freeze(self) -> None:
        """Freeze all groups and wait until they are frozen. Raises RunError."""
        for switch in self.switches:
            switch.freeze()

    def thaw(self) -> None:
        """Thaw all groups, the last one first, even if one no longer exists. Raises RunError."""
        with ExitStack() as stack:
            for switch in self.switches:
                stack.callback(switch.thaw)


@dataclass(frozen=True)
class Switch:
    """The freezer of one group."""

    file: Path  # to which stop and go are written
    stop: str
    go: str
    state: Path  # the file that contains the line stopped once the whole group is frozen
    stopped: str

    @classmethod
    def of(cls, group: Cgroup) -> Switch:
        """Return the switch of a group. Raises MachineError if the group is in no hierarchy that can freeze it."""
        unified, old = group.paths.get(UNIFIED), group.paths.get("freezer")
        if unified and (unified / "cgroup.freeze").exists():
            return cls(unified / "cgroup.freeze", "1", "0", unified / "cgroup.events", "frozen 1")
        if old and (old / "freezer.state").exists():
            return cls(old / "freezer.state", "FROZEN", "THAWED", old / "freezer.state", "FROZEN")
        raise MachineError("the arm's control group can't be frozen", "mount cgroup2, or cgroup v1's freezer")

    def freeze(self) -> None:
        """Freeze the whole group and wait until it is frozen. Raises RunError.

        A process that waits for its disk takes as long as the disk. A process that waits in the kernel for a frozen
        process waits for ever. Examples are ``close`` with a FUSE daemon of the same group and, under v1, a lock whose
        holder was frozen inside the kernel. So a group that does not freeze soon is thawed for a moment, then frozen
        again."""
        began = time.monotonic()
        while not self._freezes():
            if time.monotonic() - began > _PATIENCE:
                raise RunError(f"{self.file.parent} does not freeze", "look for processes in state D with ps")
            self.thaw()
            time.sleep(_PAUSE)

    def _freezes(self) -> bool:
        """Return whether the group freezes soon after the request."""
        self._turn(self.stop)
        began, look = time.monotonic(), _FIRST_LOOK
        while self.stopped not in self._state():
            if time.monotonic() - began > _TRY:
                return False
            time.sleep(look)
            look = min(2 * look, _LONGEST_LOOK)
        return True

    def thaw(self) -> None:
        """Raises RunError."""
        self._turn(self.go)

    def _turn(self, word: str) -> None:
        with self._lasting():
            self.file.write_text(word)

    def _state(self) -> list[str]:
        with self._lasting():
            return self.state.read_text().splitlines()

    @contextmanager
    def _lasting(self) -> Iterator[None]:
        """Ignore a missing group: a group ends with its container, at any moment."""
        try:
            yield
        except OSError as error:
            raise RunError(
                f"{self.file.parent}: {error.strerror}", "check whether another program removed the group"
            ) from None


#: States of a task that uses its time (proc_pid_stat(5)): running, or waiting in the kernel, where it cannot freeze
#: yet.
_BUSY = (b"R", b"D")
#: Kernel functions in which a task sleeps that waits for a time to pass, and for nothing else (/proc/PID/wchan).
_TIMER = ("hrtimer_nanosleep", "do_nanosleep", "common_nsleep")


def waits(groups: Iterable[Cgroup]) -> bool:
    """Return whether these groups wait for something outside them: one of their tasks sleeps for a fixed time, or no
    task runs or waits in the kernel. Sleeping tasks beside a running task usually wait for that task."""
    busy = False
    for task in _tasks(groups):
        try:
            if (task / "stat").read_bytes().rpartition(b") ")[2][:1] in _BUSY:
                busy = True
            elif (task / "wchan").read_text() in _TIMER:
                return True
        except OSError:  # the task has ended, by running
            busy = True
    return not busy


def _tasks(groups: Iterable[Cgroup]) -> Iterator[Path]:
    for group in groups:
        unified, old = group.paths.get(UNIFIED), next(iter(group.paths.values()), None)
        for directory, name in ((unified, "cgroup.threads"), (old, "tasks")):
            if directory and (directory / name).exists():
                for file in directory.rglob(name):
                    with suppress(OSError):
                        yield from (Path("/proc", task) for task in file.read_text().split())
                break
