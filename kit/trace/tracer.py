"""What a tracer is: it records something around one phase of one run of an arm, and adds it to the phase."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kit.host.cgroup import Cgroup
from kit.model.sample import Phase


@dataclass(frozen=True)
class Traced:
    """The phase that is recorded. ``group``: of the arm's processes, None without root. ``session``: where the tracer's
    own processes belong, outside the arm and ended with the session. ``scratch``: a directory for its files, of the
    session and gone with it. ``log``: the run's log, which outlives it; files beside it are kept."""

    arm: str
    block: int
    phase: str
    group: Cgroup | None
    session: Cgroup
    scratch: Path
    log: Path


class Recording(Protocol):
    """Complete when the tracer's block has ended."""

    def add_to(self, phase: Phase) -> Phase:
        """The phase with what was recorded of it."""


class Tracer(Protocol):
    """Records phases of traced runs, never of measured ones."""

    def around(self, subject: Traced) -> AbstractContextManager[Recording]:
        """Everything is attached when the block begins, gone when it has ended, also by SIGKILL of the kit. Raises
        RunError where it can't be attached: the run has failed then."""


@dataclass(frozen=True)
class Level:
    """What can be recorded here: ``calls``, ``functions`` or ``cycles``; by what, else why not, and what would mend
    it."""

    name: str
    works: bool
    reason: str
    fix: str = ""


def existing(group: Cgroup) -> list[Path]:
    """Files through which a process joins a group, in the hierarchies that have it: a session's is in some alone until
    an engine makes the others."""
    return [path for path in group.procs if path.exists()]
