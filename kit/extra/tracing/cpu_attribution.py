"""Attributes a process to a part of the machine, by its parent, its name and its position in the kernel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kit.model.drivers import fuse_daemons
from kit.model.profile import ENGINE, FUSE, KERNEL, KIT, LOOP, REST, WORKLOAD

#: Names of programs, as the kernel cuts them: 15 characters.
_FUSE = tuple(name[:15] for name in fuse_daemons())
_ENGINE = ("dockerd", "containerd", "docker", "docker-proxy", "runc", "crun", "conmon", "podman", "ctr")
_TRACING = ("perf", "bpftrace")
_KTHREADD = 2
#: Distinguishes a kernel thread from others of its kind: kworker/u4:1, jbd2/loop0-8, kswapd0.
_NUMBER = re.compile(r"(?<=[a-z0-9_])[/:-].*|\d+$")
_LOOP_FUNCTIONS = ("loop_", "lo_rw_aio", "lo_complete")


class Parts:
    """Follows processes through their forks. ``workload``: the arm's PIDs at the beginning. ``engine``: PIDs of
    everything else that the session has started. Children belong to the same part, even outside its tree, as with
    control groups. ``kit``: its own PID."""

    def __init__(self, workload: Iterable[int], engine: Iterable[int], kit: int) -> None:
        self._part = {**dict.fromkeys(engine, ENGINE), **dict.fromkeys(workload, WORKLOAD), _KTHREADD: KERNEL}
        self._kit = kit

    def forked(self, pid: int, parent: int, before: bool) -> None:
        """``before``: the process existed at the beginning, when all but kernel threads were known by their PIDs."""
        if pid == parent or (before and self._part.get(parent) != KERNEL):
            return  # a thread
        if parent in self._part:
            self._part[pid] = self._part[parent]
        else:
            self._part.pop(pid, None)  # the number belonged to another process before

    def of(self, pid: int, process: str, functions: Sequence[str]) -> tuple[str, str]:
        """Return the part, and the name of the process without the marks of a single thread."""
        part = self._part.get(pid, REST)
        if process.startswith(_FUSE):
            return FUSE, process
        if pid == self._kit or process in _TRACING:
            return KIT, process
        if part == KERNEL:
            looped = process.startswith("loop") or any(name.startswith(_LOOP_FUNCTIONS) for name in functions)
            return LOOP if looped else KERNEL, _NUMBER.sub("", process) or process
        if part == REST and (process in _ENGINE or process.startswith(("containerd-", "runc:"))):
            return ENGINE, process
        return part, process
