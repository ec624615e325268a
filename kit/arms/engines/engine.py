"""The protocol of an engine, and its configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kit.arms.engines.account import SessionUser
from kit.arms.engines.backing_root import BackingRoot
from kit.arms.engines.sandbox import Sandbox
from kit.host.machine import Host
from kit.host.recovery.journal import Journal
from kit.model.arm import Arm
from kit.model.fact import Fact


@dataclass(frozen=True)
class Blocker:
    """Why an arm can't run here, and what would fix it: a value, not an exception."""

    reason: str
    fix: str


@dataclass(frozen=True)
class EngineConfig:
    """The common configuration of a session's engines: where they may put things, and how to undo them."""

    session: str
    run: Path  # of the session: short, for sockets
    probe: Path  # the compiled probe
    journal: Journal
    cgroup: str  # name of the session's control group; engines make theirs below it
    cache: Path = Path("/var/tmp")  # directory of engine roots
    thin_device: Path | None = None  # device of devicemapper+thinpool; None: loop files
    docker: Path | None = None  # a directory with another dockerd and its programs; None: those of PATH
    tell: Callable[[str], None] = lambda text: None
    part: str = ""  # distinguishes the parts of a session
    lifted: bool = False  # the cache is mounted noexec, outside the session's mount namespace
    within: int = 0  # a process of the container that the engine's programs run in; 0: none
    network: Path | None = None  # the session's own network namespace; None: the machine's
    user: SessionUser = field(default_factory=SessionUser)  # of user namespaces

    @property
    def label(self) -> str:
        """Return the part that all names contain: the session's, and its part."""
        return f"{self.session}-{self.part}" if self.part else self.session


class Engine(Protocol):
    """Runs arms. ``open``, ``start`` and ``fill``, in this order, prepare what ``sandbox`` needs once per session,
    backing and driver. They raise KitError with the reason and the fix; a repeated call has no effect. ``close`` undoes
    everything."""

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        """Return the blockers that are known without starting anything: a missing tool or permission."""

    def open(self) -> None:
        """Open the resources that all its arms need."""

    def start(self, arm: Arm, backing_root: BackingRoot) -> None:
        """Start the daemon of the arm's driver on this backing root. Several threads may call it, for different drivers
        or backing roots: the daemon dies with the thread."""

    def fill(self, arm: Arm, backing_root: BackingRoot) -> None:
        """Load the image into the daemon. Several threads may call it, for different backing roots."""

    def sandbox(self, arm: Arm, backing_root: BackingRoot) -> AbstractContextManager[Sandbox]:
        """Yield the sandbox of one run, in its first state."""

    def unsupported(self, interfaces: Sequence[str]) -> Blocker | None:
        """Return why a scenario that knows these interfaces can't drive the engine; None if it can."""

    def facts(self) -> Sequence[Fact]:
        """Return versions and settings on which numbers depend."""

    def close(self) -> None: ...
