"""Stops a control group and lets it go on: cgroup v2's freezer, or that of v1 where the group is not in v2's hierarchy.

A frozen process holds what it has, sockets, locks and pages, and gets no CPU. Frozen is a group when all its processes
are, which one that waits for its disk is once it has its answer (Documentation/admin-guide/cgroup-v2.rst,
cgroup-v1/freezer-subsystem.rst).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import MachineError, RunError
from kit.host.cgroup import UNIFIED, Cgroup

#: Seconds after which a group that does not stop is given up: as long as the kernel waits before it warns of a task.
_PATIENCE = 120.0
#: Seconds between two looks, the first and the longest.
_FIRST_LOOK, _LONGEST_LOOK = 0.0001, 0.002


@dataclass(frozen=True)
class Freezer:
    """``switch``: the file that stops and lets go by these words; ``state``: the file that holds ``stopped`` once all
    of the group has."""

    switch: Path
    stop: str
    go: str
    state: Path
    stopped: str

    @classmethod
    def of(cls, group: Cgroup) -> Freezer:
        """Raises MachineError where the group is in no hierarchy that can stop it."""
        unified, old = group.paths.get(UNIFIED), group.paths.get("freezer")
        if unified and (unified / "cgroup.freeze").exists():
            return cls(unified / "cgroup.freeze", "1", "0", unified / "cgroup.events", "frozen 1")
        if old and (old / "freezer.state").exists():
            return cls(old / "freezer.state", "FROZEN", "THAWED", old / "freezer.state", "FROZEN")
        raise MachineError("its control group can't be frozen", "mount cgroup2, or cgroup v1's freezer")

    def freeze(self) -> None:
        """Returns when all of it stands still. Raises RunError."""
        self._turn(self.stop)
        began, look = time.monotonic(), _FIRST_LOOK
        while self.stopped not in self._state():
            if time.monotonic() - began > _PATIENCE:
                raise RunError(f"{self.switch.parent} does not freeze", "look for processes in state D with ps")
            time.sleep(look)
            look = min(2 * look, _LONGEST_LOOK)

    def thaw(self) -> None:
        """Raises RunError."""
        self._turn(self.go)

    def _turn(self, word: str) -> None:
        with self._lasting():
            self.switch.write_text(word)

    def _state(self) -> list[str]:
        with self._lasting():
            return self.state.read_text().splitlines()

    @contextmanager
    def _lasting(self) -> Iterator[None]:
        """A group goes with its container, at any moment."""
        try:
            yield
        except OSError as error:
            raise RunError(f"{self.switch.parent}: {error.strerror}", "has something else removed the group?") from None
