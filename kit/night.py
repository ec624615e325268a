"""A nightly job: what it asks for, and what came of it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis import Analysis
from kit.change import CONFIRM, Track
from kit.record import Request, Session
from kit.regression import MISSING, REGRESSION, Finding
from kit.threshold import Threshold

DEFAULT_OUTPUT = "kit-nightly"


@dataclass(frozen=True)
class Task:
    """One scenario of the job. ``across``: conditions that may differ within one series."""

    request: Request
    thresholds: tuple[Threshold, ...] = ()
    across: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.request.scenario or shlex.join(self.request.command)


@dataclass(frozen=True)
class Job:
    """One nightly file. ``budget`` and ``wait_idle`` are seconds, None for none."""

    name: str
    tasks: tuple[Task, ...]
    store: str = ""
    output: str = DEFAULT_OUTPUT
    budget: float | None = None
    wait_idle: float | None = None
    confirm: int = CONFIRM


@dataclass(frozen=True)
class Part:
    """What came of one task. ``error`` says why there is no session, or why it is not whole; '' where it is."""

    task: Task
    session: Session | None = None
    analysis: Analysis | None = None
    findings: tuple[Finding, ...] = ()
    tracks: tuple[Track, ...] = ()
    error: str = ""
    seconds: float = 0.0

    @property
    def lacking(self) -> bool:
        """True where something that was asked for could not be run."""
        return bool(self.error) or any(item.status == MISSING for item in self.findings)


@dataclass(frozen=True)
class Night:
    """One run of a job. Its exit code: 1 where something regressed, 2 where something could not run, else 0."""

    name: str
    started: float  # Unix time
    parts: tuple[Part, ...]

    @property
    def regressions(self) -> Sequence[Finding]:
        return [item for part in self.parts for item in part.findings if item.status == REGRESSION]

    @property
    def exit_code(self) -> int:
        if self.regressions:
            return 1
        return 2 if any(part.lacking for part in self.parts) else 0
