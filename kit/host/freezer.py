"""Freezes control groups and thaws them: cgroup v2's freezer, or that of v1 where the group is not in v2's hierarchy.

A frozen process holds what it has, sockets, locks and pages, and gets no CPU. A group is frozen when all its processes
are; one that waits in the kernel, for its disk or for a FUSE daemon, is frozen once it has its answer
(Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/freezer-subsystem.rst).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import MachineError, RunError
from kit.host.cgroup import UNIFIED, Cgroup

#: Seconds after which a group that does not freeze is given up: as long as the kernel waits before it warns of a task.
_PATIENCE = 120.0
#: Seconds after which a group that is not frozen yet is thawed, and seconds until it is frozen again.
_TRY, _PAUSE = 1.0, 0.1
#: Seconds between two looks, the first and the longest.
_FIRST_LOOK, _LONGEST_LOOK = 0.0001, 0.002


@dataclass(frozen=True)
class Freezer:
    """Freezes several groups as one. ``switches``: of each, in the order in which they are frozen: who waits for an
    answer of another group's process can't be frozen before it has it, so clients come before their servers."""

    switches: tuple[Switch, ...]

    @classmethod
    def of(cls, *groups: Cgroup) -> Freezer:
        """Raises MachineError where a group is in no hierarchy that can freeze it."""
        return cls(tuple(Switch.of(group) for group in groups))

    def freeze(self) -> None:
        """Return when all of them are frozen. Raises RunError."""
        for switch in self.switches:
            switch.freeze()

    def thaw(self) -> None:
        """Thaw all, the last first, also where one is gone. Raises RunError."""
        with ExitStack() as stack:
            for switch in self.switches:
                stack.callback(switch.thaw)


@dataclass(frozen=True)
class Switch:
    """Of one group. ``file``: what ``stop`` and ``go`` are written to; ``state``: the file that holds the line
    ``stopped`` once all of the group is frozen."""

    file: Path
    stop: str
    go: str
    state: Path
    stopped: str

    @classmethod
    def of(cls, group: Cgroup) -> Switch:
        """Raises MachineError where the group is in no hierarchy that can freeze it."""
        unified, old = group.paths.get(UNIFIED), group.paths.get("freezer")
        if unified and (unified / "cgroup.freeze").exists():
            return cls(unified / "cgroup.freeze", "1", "0", unified / "cgroup.events", "frozen 1")
        if old and (old / "freezer.state").exists():
            return cls(old / "freezer.state", "FROZEN", "THAWED", old / "freezer.state", "FROZEN")
        raise MachineError("its control group can't be frozen", "mount cgroup2, or cgroup v1's freezer")

    def freeze(self) -> None:
        """Return when all of it is frozen. Raises RunError.

        A process that waits for its disk takes as long as the disk. One that waits in the kernel for a process which is
        already frozen waits for ever: in ``close`` for a FUSE daemon of the same group, or, under v1, for a lock whose
        holder was frozen inside the kernel. So what is not frozen soon is thawed for a moment, then frozen again.
        """
        began = time.monotonic()
        while not self._freezes():
            if time.monotonic() - began > _PATIENCE:
                raise RunError(f"{self.file.parent} does not freeze", "look for processes in state D with ps")
            self.thaw()
            time.sleep(_PAUSE)

    def _freezes(self) -> bool:
        """Whether it is frozen soon after it is told to."""
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
        """A group goes with its container, at any moment."""
        try:
            yield
        except OSError as error:
            raise RunError(f"{self.file.parent}: {error.strerror}", "has something else removed the group?") from None
