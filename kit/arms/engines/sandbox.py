"""A sandbox: an arm prepared for one run. Code above it does not depend on the engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kit.arms.filesystem import Backing
from kit.arms.probe import Probe, Timing
from kit.core.deadline import Deadline
from kit.core.errors import RunError, TimedOut
from kit.host.cgroup.cgroup import Cgroup
from kit.host.cgroup.counters import machine_energy
from kit.host.durable import sync_filesystem

DEFAULT_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
}


@dataclass(frozen=True)
class Invocation:
    """A command as a sandbox runs it: its words, its directory as the arm sees it, its environment and user."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    uid: int = 0
    gid: int = 0

    @property
    def user(self) -> str:
        return f"{self.uid}:{self.gid}"


@dataclass(frozen=True)
class Sandbox:
    """An arm prepared for one run.

    ``tree`` and ``inputs`` are paths as the arm sees them. ``unpack(tarball)`` fills the tree, untimed. ``alive``
    returns why the arm is dead, or ''. ``env``, ``uid`` and ``gid`` apply to the commands run in it. ``layered``: the
    tree lies in a writable layer above the image's. ``own``: the paths of root filesystems of its own, above
    the backing one (a thin device, a loop file). ``engine()`` puts the engine's socket where the arm sees it and
    returns its path there, '' without an engine; ``socket`` keeps it. ``registry``: HOST:PORT of the scenario's, or ''.
    Control groups: ``beside`` of the background load and the registry; ``session`` of everything that the session has
    started; ``daemons`` of the processes that serve its filesystem. The daemons are frozen after the arm, and their CPU
    is not the arm's. ``whole_folios``: its kernel counts dirtied bytes by whole folios. ``deadline``: when everything
    in it is ended. ``report()`` returns what the arm itself reports of the last command, in the ``report_format``, a
    name of kit.parsers; '' without one. ``rehearsal``: puts the arm into the state in which these commands are
    measured."""

    tree: str
    inputs: str
    cgroup: Cgroup | None
    backing: Backing
    probe: Probe
    unpack: Callable[[Path], None]
    alive: Callable[[], str]
    env: Mapping[str, str]
    uid: int = 0
    gid: int = 0
    layered: bool = False
    engine: Callable[[], str] = str
    socket: str = ""
    registry: str = ""
    beside: Sequence[Cgroup] = ()
    session: Cgroup | None = None
    daemons: Cgroup | None = None
    own: tuple[Path, ...] = ()
    whole_folios: bool = False
    deadline: Deadline | None = None
    report_format: str = ""
    report: Callable[[], str] = str
    rehearsal: Callable[[Sequence[Invocation], Deadline | None, Callable[[], str]], None] | None = None

    def sync(self) -> None:
        """Write back everything dirty. The backing filesystem does not know the dirty data of a filesystem above it."""
        for path in self.own:
            sync_filesystem(path)
        self.backing.sync()

    def pin(self, cpus: Iterable[int]) -> None:
        """Run what is in its control group, and all that it starts, on these CPUs alone. A runtime resets the affinity
        that it inherits (runc, since 1.2), so this comes after the start. Raises RunError without a control group."""
        if self.cgroup is None:
            raise RunError("the programs of the arm are not known: it has no control group", "run as root: sudo kit …")
        pinned: set[int] = set()
        while new := _threads(self.cgroup.pids()) - pinned:  # until no thread of another one's has come meanwhile
            for thread in new:
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(thread, cpus)
            pinned |= new

    def run(self, argv: Sequence[str], cwd: str, output: IO[bytes]) -> Timing:
        """Run a command inside the arm; ``cwd`` is relative to the tree. Raises RunError and TimedOut, see Probe.run.
        After the deadline nothing of the arm is alive."""
        try:
            return self.probe.run(
                argv, cwd=self._where(cwd), env=self.env, output=output, uid=self.uid, gid=self.gid, alive=self.dead,
                deadline=self.deadline,
            )  # fmt: skip
        except TimedOut:
            self.kill()  # if the probe is not permitted to, or hangs itself
            raise

    def rehearse(self, commands: Iterable[tuple[Sequence[str], str]]) -> None:
        """Prepare the arm for these commands, each with its directory: a build with a warm cache runs them once. Raises
        RunError, TimedOut."""
        if self.rehearsal:
            steps = [Invocation(tuple(argv), self._where(cwd), self.env, self.uid, self.gid) for argv, cwd in commands]
            try:
                self.rehearsal(steps, self.deadline, self.dead)
            except TimedOut:
                self.kill()
                raise

    def dead(self) -> str:
        """Return why nothing can run in it any more, or ''. Whoever waits for a command asks every second, which also
        keeps up with the energy counters."""
        machine_energy().joules()
        return self.backing.alive() or self.alive()

    def start(self, argv: Sequence[str], cwd: str, output: IO[bytes]) -> None:
        """Request a command, as ``run`` does; the probe reports its end. Raises RunError."""
        self.probe.start(argv, cwd=self._where(cwd), env=self.env, output=output, uid=self.uid, gid=self.gid)

    def end(self) -> None:
        """End everything that runs in it."""
        self._thaw_daemons()
        self.probe.end()
        self.kill()

    def kill(self) -> None:
        """Kill everything in its control group. Its daemons must be running: a dying process closes its files through
        them."""
        self._thaw_daemons()
        if self.cgroup:
            self.cgroup.kill()

    def _thaw_daemons(self) -> None:
        if self.daemons:
            self.daemons.thaw()

    def _where(self, cwd: str) -> str:
        return self.tree if cwd == "." else f"{self.tree}/{cwd}"


def _threads(pids: Iterable[int]) -> set[int]:
    """Return the threads of processes, those of a kernel in user space too: gVisor's."""
    threads: set[int] = set()
    for pid in pids:
        with suppress(ProcessLookupError, FileNotFoundError):  # it has ended
            threads.update(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    return threads
