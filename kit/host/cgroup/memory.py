"""The greatest memory of an arm within a phase: of its control group, and of the daemons that serve its filesystem."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kit.host.cgroup.cgroup import UNIFIED, Cgroup


@dataclass(frozen=True)
class PeakMemory:
    """Bytes; None is 'not measured'. A field with the name of a metric is that metric."""

    arm_memory: float | None = None
    daemon_memory: float | None = None


@dataclass(frozen=True)
class MemoryWatch:
    """A watch that has begun. ``file``: of the group's peak; None if no memory controller accounts the group.
    ``earlier``: the peak before the watch, where the kernel can't reset it, else None."""

    file: int | None
    earlier: int | None
    daemons: Cgroup | None

    def read(self) -> PeakMemory:
        """Return the peaks since the beginning."""
        return PeakMemory(self._arm(), _daemons(self.daemons) if self.daemons else None)

    def _arm(self) -> float | None:
        """Return the group's peak; None if it is not known, because an earlier one was higher."""
        peak = None if self.file is None else _number(self.file)
        return None if peak is None or (self.earlier is not None and peak <= self.earlier) else peak


@contextmanager
def watch_memory(group: Cgroup | None, daemons: Cgroup | None = None) -> Iterator[MemoryWatch]:
    """Watch until the block ends. No memory controller is enabled for that: it would cost the arm time."""
    with ExitStack() as stack:
        file, earlier = _open(group, stack) if group else (None, None)
        for pid in daemons.pids() if daemons else ():
            with suppress(OSError):  # it has ended
                Path(f"/proc/{pid}/clear_refs").write_text("5")  # VmHWM becomes VmRSS (proc_pid_clear_refs(5))
        yield MemoryWatch(file, earlier, daemons)


def _open(group: Cgroup, stack: ExitStack) -> tuple[int | None, int | None]:
    """Open the file of the group's peak and reset it. Under v2 that is possible since Linux 6.12, for this descriptor
    alone (Documentation/admin-guide/cgroup-v2.rst)."""
    for kind, name in ((UNIFIED, "memory.peak"), ("memory", "memory.max_usage_in_bytes")):
        path = group.paths[kind] / name if kind in group.paths else None
        if path and path.exists():
            try:
                file = os.open(path, os.O_RDWR)
                stack.callback(os.close, file)
                os.pwrite(file, b"0", 0)
                return file, None
            except OSError:
                file = os.open(path, os.O_RDONLY)
                stack.callback(os.close, file)
                return file, _number(file)
    return None, None


def _number(file: int) -> int | None:
    """Return the number in a file, None if the group no longer exists."""
    try:
        return int(os.pread(file, 64, 0))
    except OSError:
        return None


def _daemons(group: Cgroup) -> float | None:
    """Return the sum of the greatest resident sizes of the processes; None without a process."""
    found = []
    for pid in group.pids():
        with suppress(OSError):  # it has ended
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")]
    return sum(found) if found else None
