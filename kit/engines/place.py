"""A place: an arm made ready for one run. All that is particular to an engine ends here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kit.core.errors import TimedOut
from kit.core.limit import Deadline
from kit.filesystem import Backing
from kit.host.cgroup import Cgroup
from kit.host.durable import sync_filesystem
from kit.probe import Probe, Timing

DEFAULT_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
}


@dataclass(frozen=True)
class Place:
    """``tree`` and ``inputs`` are paths as the arm sees them. ``unpack(tarball)`` fills the tree, untimed. ``alive``
    returns why the arm is dead, or ''. ``env``, ``uid`` and ``gid`` are those of the commands run in it. ``layered``:
    the tree lies in a writable layer above the image's. ``own``: where its root filesystem is one of its own, above the
    backing one (a thin device, a loop file). ``engine()`` puts the engine's socket where the arm sees it and
    returns its path there, '' where there is no engine; ``socket`` keeps it. ``load``: the control group of what
    runs beside it, ``session``: that of all that the session has started, ``daemons``: that of the processes that serve
    its filesystem, which are frozen after it and are not in its CPU. ``deadline``: when what still runs in it is
    ended."""

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
    load: Cgroup | None = None
    session: Cgroup | None = None
    daemons: Cgroup | None = None
    own: Path | None = None
    deadline: Deadline | None = None

    def sync(self) -> None:
        """Write back everything dirty. The backing filesystem knows nothing of what is dirty in one above it."""
        if self.own:
            sync_filesystem(self.own)
        self.backing.sync()

    def run(self, argv: Sequence[str], cwd: str, output: IO[bytes]) -> Timing:
        """Run a command inside the arm; ``cwd`` is relative to the tree. Raises RunError and TimedOut,
        see Probe.run; past the deadline nothing of the arm is left alive."""
        try:
            return self.probe.run(
                argv, cwd=self._where(cwd), env=self.env, output=output, uid=self.uid, gid=self.gid, alive=self.dead,
                deadline=self.deadline,
            )  # fmt: skip
        except TimedOut:
            self.kill()  # where the probe is not allowed to, or is itself stuck
            raise

    def dead(self) -> str:
        """Why nothing can run in it any more, or ''."""
        return self.backing.alive() or self.alive()

    def start(self, argv: Sequence[str], cwd: str, output: IO[bytes]) -> None:
        """Ask for a command, as ``run`` does; the probe says when it has ended. Raises RunError."""
        self.probe.start(argv, cwd=self._where(cwd), env=self.env, output=output, uid=self.uid, gid=self.gid)

    def end(self) -> None:
        """End all that runs in it."""
        self._thaw_daemons()
        self.probe.end()
        self.kill()

    def kill(self) -> None:
        """Kill all that runs in its control group. Its daemons run: a process that dies closes its files by them."""
        self._thaw_daemons()
        if self.cgroup:
            self.cgroup.kill()

    def _thaw_daemons(self) -> None:
        if self.daemons:
            self.daemons.thaw()

    def _where(self, cwd: str) -> str:
        return self.tree if cwd == "." else f"{self.tree}/{cwd}"
