"""A night: the tasks of a nightly job and their results. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.session.analyse import Analysis
from kit.analysis.session.threshold import Threshold
from kit.core.exit_code import DONE, FAILED, NOT_RUN, OVER_LIMIT, worst
from kit.extra.history.analysis.change_attribution import CommonChange
from kit.extra.history.analysis.changepoint import ChangeHistory
from kit.extra.history.analysis.regression import LIMIT, MISSING, Finding
from kit.model.session import FAILED as LOST
from kit.model.session import NotRun, Request, Session, title_of


@dataclass(frozen=True)
class Task:
    """One scenario of the job. ``across``: conditions that may differ within one series. ``on``: the failure rule, one
    of kit.extra.history.analysis.regression.RULES."""

    request: Request
    thresholds: tuple[Threshold, ...] = ()
    across: tuple[str, ...] = ()
    on: str = LIMIT

    @property
    def name(self) -> str:
        """Return the title that its sessions get. Only a session knows that of a scenario's file."""
        return title_of(self.request, self.request.scenario)


@dataclass(frozen=True)
class Part:
    """The result of one task. ``error``: why the session is missing or incomplete; '' if complete."""

    task: Task
    session: Session | None = None
    analysis: Analysis | None = None
    findings: tuple[Finding, ...] = ()
    tracks: tuple[ChangeHistory, ...] = ()
    error: str = ""
    seconds: float = 0.0
    common: tuple[CommonChange, ...] = ()  # changes of this machine, and of others of its class

    @property
    def name(self) -> str:
        """Return what the task is called everywhere: the title by which its sessions are found."""
        return self.session.title if self.session else self.task.name

    @property
    def missed(self) -> tuple[NotRun, ...]:
        """Return the arms of the file that did not run."""
        return self.session.missed(self.task.request.arms) if self.session else ()

    @property
    def exit_code(self) -> int:
        """Return whether a requested item failed or did not run, whatever the limits say."""
        if self.session is None:
            return NOT_RUN
        incomplete = self.error and self.session.status != LOST  # a lost session has a code that says more
        missing = any(finding.status == MISSING for finding in self.findings)
        session_code = self.session.exit_code(self.task.request.arms)
        return worst((session_code, FAILED if incomplete else DONE, NOT_RUN if missing else DONE))


@dataclass(frozen=True)
class Night:
    """One run of a job."""

    name: str
    started: float  # Unix time
    parts: tuple[Part, ...]

    @property
    def findings(self) -> Sequence[Finding]:
        return [finding for part in self.parts for finding in part.findings]

    @property
    def exit_code(self) -> int:
        """Return OVER_LIMIT where a threshold fails the night, else what failed or did not run."""
        if any(finding.fails for finding in self.findings):
            return OVER_LIMIT
        return worst(part.exit_code for part in self.parts)
