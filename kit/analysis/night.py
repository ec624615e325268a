"""A nightly job: what it asks for, and what came of it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.analyse import Analysis
from kit.analysis.changepoint import CONFIRM, Track
from kit.analysis.common_change import CommonChange
from kit.analysis.regression import LIMIT, MISSING, Finding, Rule
from kit.analysis.threshold import Threshold
from kit.model.session import Request, Session
from kit.model.sweep import points

DEFAULT_OUTPUT = "kit-nightly"


@dataclass(frozen=True)
class Task:
    """One scenario of the job. ``across``: conditions that may differ within one series. ``on``: what it fails on, one
    of kit.analysis.regression.RULES."""

    request: Request
    thresholds: tuple[Threshold, ...] = ()
    across: tuple[str, ...] = ()
    on: str = LIMIT

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

    def rule(self, task: Task) -> Rule:
        """How the thresholds of a task are judged: all those of the night at once."""
        family = sum(len(one.thresholds) * len(points(one.request.params)) for one in self.tasks)
        return Rule(task.on, self.confirm, max(family, 1))


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
    common: tuple[CommonChange, ...] = ()  # changes of this machine, and of others of its class

    @property
    def lacking(self) -> bool:
        """True where something that was asked for could not be run."""
        return bool(self.error) or any(item.status == MISSING for item in self.findings)


@dataclass(frozen=True)
class Night:
    """One run of a job. Its exit code: 1 where a threshold fails it, 2 where something could not run, else 0."""

    name: str
    started: float  # Unix time
    parts: tuple[Part, ...]

    @property
    def findings(self) -> Sequence[Finding]:
        return [item for part in self.parts for item in part.findings]

    @property
    def exit_code(self) -> int:
        if any(item.fails for item in self.findings):
            return 1
        return 2 if any(part.lacking for part in self.parts) else 0
