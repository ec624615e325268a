"""The states of the tasks in a control group: running, waiting for a disk, or waiting for something else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from kit.host.cgroup.cgroup import UNIFIED, Cgroup

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
