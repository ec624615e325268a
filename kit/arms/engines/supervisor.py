"""Starts the programs of a private daemon, monitors them, and ends them with their children and mounts."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kit.arms.engines.account import Account
from kit.arms.engines.root import EngineRoot
from kit.arms.filesystem.block import unmount
from kit.core.errors import SESSION_LOG, RunError
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import Process, run, spawn, stop
from kit.host.mounts import mounts_below
from kit.host.waiting import NotReadyError, wait_for

log = logging.getLogger(__name__)

#: Before a program that may load no module: dockerd would load those of networks that no container here has. What an
#: arm needs the kit itself loads, and names (kit.host.kernel_part).
_NO_MODULES = ("setpriv", "--bounding-set=-sys_module", "--")
#: Seconds within which a program must serve.
PATIENCE = 60


@dataclass(frozen=True)
class Program:
    """A program that serves on a socket once it is up."""

    name: str
    argv: Sequence[str]
    socket: Path


@dataclass(frozen=True)
class DaemonDirs:
    """The directories of a private daemon: ``data`` on the backing filesystem, ``directory`` a short path for sockets,
    settings and log. ``root``: the engine root of its programs. ``shared``: the host's directories that they see.
    ``user``: as whom they run; None for this process's. Then ``data`` and ``state`` are that user's, and no others."""

    data: Path
    directory: Path
    cgroup: str
    root: EngineRoot = field(default_factory=EngineRoot)
    shared: Sequence[Path] = ()
    user: Account | None = None

    @property
    def state(self) -> Path:
        """Return the directory in which its programs make sockets and other files. That of another user lies beside
        root's: rootless Podman opens it, and all above it, to everybody."""
        return self.directory.with_name(f"{self.directory.name}u") if self.user else self.directory

    @property
    def container_cgroup(self) -> str:
        """Return the control group of its containers, in the form that an engine expects."""
        return f"/{self.cgroup}-containers"

    @property
    def programs(self) -> Path:
        """Return the directory of scripts that the daemon runs. An ordinary user's directory of sockets may be mounted
        noexec, which only root can change."""
        return self.directory if os.geteuid() == 0 else self.data

    def command(self, *argv: str | Path) -> list[str]:
        """Return a command line that their user runs."""
        return [*(self.user.words() if self.user else ()), *map(str, argv)]

    def make_below(self, path: Path) -> None:
        """Make a directory in ``data`` or ``state``, as their user."""
        if self.user:
            run(self.command("mkdir", "-m", "700", path))
        else:
            path.mkdir(mode=0o700)

    def make(self) -> None:
        self.directory.mkdir(mode=0o700)
        if self.user:
            self.user.admit(self.directory)
            self.user.make_directory(self.state)
            self.user.make_directory(self.data)
        else:
            self.data.mkdir(parents=True)

    def clear(self) -> None:
        """End what is left in its control groups, and unmount what is left in its directories."""
        for name in (self.cgroup, self.container_cgroup.lstrip("/")):
            Cgroup.named(name).remove()  # shims and containers outlive a killed daemon
        for mount in (*mounts_below(self.directory), *mounts_below(self.data)):
            unmount(mount.path)


class Supervisor:
    """Supervises the programs of one daemon; ``name`` is the daemon's in the session's log."""

    def __init__(self, home: DaemonDirs, name: str) -> None:
        self._home = home
        self._name = name
        self._log = home.directory / "log"
        self._processes: dict[str, Process] = {}

    def start(self, programs: Iterable[Program]) -> None:
        """Start the programs in this order, each after the previous one serves. Raises RunError with the log's
        message."""
        for program in programs:
            root = os.geteuid() == 0
            with self._log.open("ab") as output:
                self._processes[program.name] = spawn(
                    [*(_NO_MODULES if root else ()), *self.inside(self._home.command(*program.argv))],
                    output=output,
                    cgroup_procs=Cgroup.named(self._home.cgroup).create().procs if root else (),
                )
            self._wait(program.name, program.socket)

    def inside(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs ``argv`` in the root of its programs."""
        root = self._home.root
        return root.join(argv, self.pids[0]) if self._processes else root.enter(argv, self._home.shared)

    @property
    def pids(self) -> list[int]:
        """Return the PIDs of its programs, in the order of their start."""
        return [process.pid for process in self._processes.values()]

    def alive(self) -> str:
        """Return why the daemon is dead, or ''."""
        for name, process in self._processes.items():
            status = process.poll()
            if status is not None:
                how = f"killed by signal {-status}" if status < 0 else self._last_words()
                return f"{name} died: {how}"
        return ""

    @property
    def said(self) -> list[str]:
        """Return the lines of its log."""
        return self._log.read_text(errors="replace").strip().splitlines()

    def _last_words(self) -> str:
        """Return the last error in its log, else its last line."""
        lines = self.said
        loud = [line for line in lines if "level=fatal" in line or "level=error" in line or line.startswith("failed")]
        line = (loud or lines or ["no output"])[-1]
        return line.partition("msg=")[2].strip('"') or line

    def stop(self) -> None:
        """End the programs, the last one first, and everything that they left."""
        for process in reversed(self._processes.values()):
            stop(process, patience=20)
        if self._log.exists():
            log.debug("log of %s, %s:\n%s", " and ".join(self._processes), self._name, "\n".join(self.said))
        self._home.clear()

    def _wait(self, name: str, socket: Path) -> None:
        process = self._processes[name]
        try:
            wait_for(socket.exists, lambda: self._last_words() if process.poll() is not None else "", PATIENCE)
        except NotReadyError as error:
            raise RunError(f"{name} does not start: {error}", SESSION_LOG) from None
