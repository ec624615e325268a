"""The protocol of a tracer: it records events around one phase of a run, and adds them to the phase."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kit.host.cgroup.cgroup import Cgroup
from kit.model.sample import Phase


@dataclass(frozen=True)
class Traced:
    """The recorded phase. ``group``: of the arm's processes, None without root. ``session``: the group of the tracer's
    own processes, outside the arm and ended with the session. ``scratch``: a directory for its files, removed with the
    session. ``log``: the run's log, which is kept, with files beside it."""

    arm: str
    round: int
    phase: str
    group: Cgroup | None
    session: Cgroup
    scratch: Path
    log: Path


class Recording(Protocol):
    """A recording, complete after the tracer's block."""

    def add_to(self, phase: Phase) -> Phase:
        """Return the phase with its recording."""


class Tracer(Protocol):
    """Records phases of traced runs, never of measured ones."""

    def around(self, subject: Traced) -> AbstractContextManager[Recording]:
        """Attach everything at the beginning of the block, and detach it at the end, also after SIGKILL of the kit.
        Raises RunError if attaching fails: then the run has failed."""


@dataclass(frozen=True)
class Level:
    """What can be recorded here: ``calls``, ``functions`` or ``cycles``. It names the tool, or the reason and the
    fix."""

    name: str
    works: bool
    reason: str
    fix: str = ""


def existing(group: Cgroup) -> list[Path]:
    """Return the files through which a process joins a group, in the hierarchies that have it: a session's group exists
    in some alone until an engine makes the others."""
    return [path for path in group.procs if path.exists()]
