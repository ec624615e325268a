"""Waits for a quiet machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from kit.core.errors import BusyError
from kit.core.quantity import shown_duration
from kit.host.cgroup.cgroup import machine_cpu
from kit.host.interrupt import interruptible

#: A machine is quiet if, in WINDOWS consecutive windows of WINDOW seconds, at most SHARE of one core's time was spent,
#: and no disk was busy for more than SHARE of the window.
WINDOWS, WINDOW, SHARE = 3, 2.0, 0.05


def wait_idle(limit: float, tell: Callable[[str], None]) -> None:
    """Wait until the machine is quiet. Raises BusyError after ``limit`` seconds."""
    deadline = time.monotonic() + limit
    quiet, reported = 0, False
    while quiet < WINDOWS:
        cpu, disk = _window(WINDOW)
        quiet = quiet + 1 if max(cpu, disk) <= SHARE else 0
        text = f"{100 * cpu:.0f} % of a core and {100 * disk:.0f} % of a disk's time are in use"
        if not quiet and not reported:
            tell(f"waiting for a quiet machine, {shown_duration(limit)} at most: {text}")
            reported = True
        if not quiet and time.monotonic() > deadline:
            raise BusyError(
                f"the machine did not become quiet within {shown_duration(limit)}: {text}",
                "stop what runs (top, iotop), or give --wait-idle a longer time",
            )
    if reported:
        tell("the machine is quiet")


def _window(seconds: float) -> tuple[float, float]:
    """Return the shares of the window in which all CPUs together, and the busiest disk, worked."""
    cpu, disks, start = machine_cpu()[0], _busy(), time.monotonic()
    with interruptible():
        time.sleep(seconds)
    now = _busy()
    length = time.monotonic() - start
    disk = max((now[name] - disks[name] for name in now.keys() & disks.keys()), default=0.0)
    return (machine_cpu()[0] - cpu) / length, disk / length


def _busy() -> dict[str, float]:
    """Return the seconds since boot in which each device had I/O in flight (Documentation/admin-guide/iostats.rst,
    field 10)."""
    seconds = {}
    path = Path("/proc/diskstats")
    if path.exists() and os.access(path, os.R_OK):
        for line in path.read_text().splitlines():
            words = line.split()
            if len(words) > 12:
                seconds[words[2]] = int(words[12]) / 1e3
    return seconds
