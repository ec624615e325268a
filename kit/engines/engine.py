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
    """Runs arms. ``open``, ``start`` and ``fill``, in this order, make ready for ``place`` what is needed once per
    session, backing and driver; they raise KitError with the reason and the fix, and calling one again costs nothing.
    ``close`` undoes it all. ``undriven``: why a scenario can't drive it by itself, where it can't."""

    undriven: Blocker | None

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        """What can be told without starting anything: a tool, a right."""

    def open(self) -> None:
        """What all of its arms need."""

    def start(self, arm: Arm, ground: Ground) -> None:
        """What runs for the arm's driver on this ground. Several threads may call it, for different drivers or grounds:
        what it starts dies with the thread."""

    def fill(self, arm: Arm, ground: Ground) -> None:
        """Bring the image there. Several threads may call it, for different grounds."""

    def place(self, arm: Arm, ground: Ground) -> AbstractContextManager[Place]:
        """One run's place, in its first state."""

    def facts(self) -> Sequence[Fact]:
        """Versions and settings that numbers depend on."""

    def close(self) -> None: ...
