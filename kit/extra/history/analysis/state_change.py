"""What changed since a task's previous session: limits broken or kept again, items that failed or run again. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kit.extra.history.analysis.night import Part
from kit.extra.history.analysis.regression import MISSING, Finding

#: States of a limit, of an arm and of a task.
OK, BROKEN, FAILED = "ok", "limit broken", "failed"
#: The subject that stands for the task itself.
_TASK = ""


@dataclass(frozen=True)
class StateChange:
    """One state that differs from the previous session's. ``subject``: a limit, an arm that the file names, or '' for
    the task itself. ``finding``: of a limit, as far as it was judged."""

    task: str
    subject: str
    point: str
    before: str
    after: str
    finding: Finding | None = None

    @property
    def worse(self) -> bool:
        return self.after != OK


def find_state_changes(before: Part | None, after: Part) -> tuple[StateChange, ...]:
    """Return what changed. ``before``: the previous session, judged as in its own night; None: unknown, so that
    everything counts as ok. What tonight's session leaves open has not changed."""
    return tuple(_changes(before, after))


def _changes(before: Part | None, after: Part) -> Iterator[StateChange]:
    was, now = _states(before) if before else {}, _states(after)
    findings = {_key(finding): finding for finding in after.findings}
    complete = FAILED not in now.values()
    for key in {**now, **was}:
        old, new = was.get(key, OK), now.get(key, OK if complete else None)
        if new is not None and new != old:
            yield StateChange(after.name, *key, old, new, findings.get(key))


def _states(part: Part) -> dict[tuple[str, str], str]:
    """Return states by subject and point. An arm that did not run has one state, not one for each limit."""
    missed = {blocked.arm for blocked in part.missed}
    states = {(_TASK, ""): FAILED if part.error or part.session is None else OK}
    states |= {(arm, ""): FAILED for arm in missed}
    for finding in part.findings:
        if finding.status != MISSING or finding.threshold.arm not in missed:
            states[_key(finding)] = BROKEN if finding.fails else FAILED if finding.status == MISSING else OK
    return states


def _key(finding: Finding) -> tuple[str, str]:
    return str(finding.threshold), finding.comparison.point if finding.comparison else ""
