"""The time limit of one run, and the message for a run that exceeds it. Pure: moments are monotonic seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kit.core.quantity import shown_duration


@dataclass(frozen=True)
class Deadline:
    """A run's limit."""

    at: float  # when a running command is ended, with all that it started
    text: str  # the reason, for the record
    own: bool = False  # limits the run's own time, without waits for others

    def later(self, seconds: float) -> Deadline:
        """Return the deadline after the run has been frozen for this number of seconds."""
        return replace(self, at=self.at + seconds) if self.own else self


def run_deadline(now: float, timeout: float | None, remaining: float | None, longest: float) -> Deadline | None:
    """Return the deadline of the run whose set-up begins ``now``; None without a limit.

    ``timeout``: seconds for each run. ``remaining``: seconds of the budget. ``longest``: seconds of the longest
    run so far, 0 before the first. The first run ends with the budget. A later run may exceed the budget, up to twice
    the longest run."""
    limits = [] if timeout is None else [(timeout, ", the limit set by timeout", True)]
    if remaining is not None and remaining >= 2 * longest:
        limits.append((remaining, ": the budget is over", False))
    elif remaining is not None:
        limits.append((2 * longest, ": the budget is over, and no run so far took half as long", False))
    if not limits:
        return None
    seconds, why, own_limit = min(limits)
    return Deadline(now + seconds, f"timed out after {shown_duration(seconds)}{why}", own_limit)
