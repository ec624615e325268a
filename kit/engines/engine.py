"""What an engine is, and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kit.engines.ground import Ground
from kit.engines.place import Place
from kit.host.journal import Journal
from kit.host.machine import Host
from kit.model.arm import Arm
from kit.model.fact import Fact


@dataclass(frozen=True)
class Blocker:
    """Why an arm can't run here, and what would mend it: a value, not an exception."""

    reason: str
    fix: str


@dataclass(frozen=True)
class Setting:
    """What every engine of a session shares: where it may put things, and how to undo them."""

    session: str
    run: Path  # of the session: short, for sockets
    probe: Path  # the compiled probe
    journal: Journal
    cgroup: str  # name of the session's control group; engines make theirs below it
    cache: Path = Path("/var/tmp")  # where engine roots are kept
    thin_device: Path | None = None  # on which devicemapper+thinpool is put; None: loop files
    docker: Path | None = None  # a directory with another dockerd and what belongs to it; None: those of PATH
    tell: Callable[[str], None] = lambda text: None
    part: str = ""  # of the session, where it has several of what is made

    @property
    def label(self) -> str:
        """What the names of all that is made bear: the session's, and the part."""
        return f"{self.session}-{self.part}" if self.part else self.session


class Engine(Protocol):
    """Runs arms. ``start`` does what is needed once per session, backing and driver; ``close`` undoes it all.
    ``undriven``: why a scenario can't drive it by itself, where it can't."""

    undriven: Blocker | None

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        """What can be told without starting anything: a tool, a right."""

    def start(self, arm: Arm, ground: Ground) -> None:
        """Make ready for ``place``; raises KitError with the reason and the fix. Calling it again costs nothing."""

    def place(self, arm: Arm, ground: Ground) -> AbstractContextManager[Place]:
        """One run's place, in its first state."""

    def facts(self) -> Sequence[Fact]:
        """Versions and settings that numbers depend on."""

    def close(self) -> None: ...
