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
    """A watch that has begun."""

    group: Cgroup | None = None
    daemons: Cgroup | None = None
    file: int | None = None  # of the group's peak; None if no memory controller accounted the group then
    earlier: int | None = None  # the peak before the watch in bytes, where the kernel can't reset it, else None

    def read(self) -> PeakMemory:
        """Return the peaks since the beginning."""
        return PeakMemory(self._arm(), _daemons(self.daemons) if self.daemons else None)

    def _arm(self) -> float | None:
        """Return the group's peak; None if it is not known, because an earlier one was higher."""
        if self.file is None:  # a group that was made during the watch: the first step of a build makes one
            path = _path(self.group)
            with suppress(OSError):  # it has ended
                return float(path.read_text()) if path else None
            return None
        peak = _number(self.file)
        return None if peak is None or (self.earlier is not None and peak <= self.earlier) else peak


@contextmanager
def watch_memory(group: Cgroup | None, daemons: Cgroup | None = None) -> Iterator[MemoryWatch]:
    """Watch until the block ends. No memory controller is enabled for that: it would cost the arm time."""
    with ExitStack() as stack:
        path = _path(group)
        file, earlier = _open(path, stack) if path else (None, None)
        for pid in daemons.pids() if daemons else ():
            with suppress(OSError):  # it has ended
                Path(f"/proc/{pid}/clear_refs").write_text("5")  # VmHWM becomes VmRSS (proc_pid_clear_refs(5))
        yield MemoryWatch(group, daemons, file, earlier)


def _path(group: Cgroup | None) -> Path | None:
    """Return the file with the group's peak; None if no memory controller accounts the group."""
    names = {UNIFIED: "memory.peak", "memory": "memory.max_usage_in_bytes"}
    files = [group.paths[kind] / name for kind, name in names.items() if kind in group.paths] if group else []
    return next((file for file in files if file.exists()), None)


def _open(path: Path, stack: ExitStack) -> tuple[int, int | None]:
    """Return the opened file, and the peak until now if it can't be reset. Under v2 that is possible since Linux 6.12,
    for this descriptor alone (Documentation/admin-guide/cgroup-v2.rst)."""
    try:
        file = os.open(path, os.O_RDWR)
        stack.callback(os.close, file)
        os.pwrite(file, b"0", 0)
        return file, None
    except OSError:
        file = os.open(path, os.O_RDONLY)
        stack.callback(os.close, file)
        return file, _number(file)


def _number(file: int) -> int | None:
    """Return the number in a file, None if the group no longer exists."""
    try:
        return int(os.pread(file, 64, 0))
    except OSError:
        return None


def _daemons(group: Cgroup) -> float | None:
    """Return the sum of the greatest resident sizes of the processes; None without a process."""
    peaks = []
    for pid in group.pids():
        with suppress(OSError):  # it has ended
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            peaks += [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")]
    return sum(peaks) if peaks else None
