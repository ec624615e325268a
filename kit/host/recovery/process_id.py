"""The identity of a process, distinct from every other process that has had or will have its number."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Owner:
    pid: int
    start: int  # clock ticks since the machine started, field 22 of /proc/PID/stat
    boot: str  # the kernel's random name for the time since the machine started

    @classmethod
    def me(cls) -> Owner:
        return cls(os.getpid(), _start(os.getpid()), _boot())

    @classmethod
    def parse(cls, words: list[str]) -> Owner:
        """Return the process that a text names. Raises ValueError."""
        pid, start, boot = words
        return cls(int(pid), int(start), boot)

    @property
    def words(self) -> list[str]:
        return [str(self.pid), str(self.start), self.boot]

    def lives(self) -> bool:
        """Return whether exactly this process runs in this PID namespace; a zombie does not count."""
        return self.boot == _boot() and self.start == _start(self.pid)


def _start(pid: int) -> int:
    """Return the start time, -1 if the process does not exist."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return -1
    return -1 if state in (b"Z", b"X") else int(fields[18])


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
