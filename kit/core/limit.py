"""How long one run may take, and what is said of a run that took longer. Pure: moments are monotonic seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kit.core.quantity import shown_duration


@dataclass(frozen=True)
class Deadline:
    """``at``: when a command that still runs is ended, with all that it started. ``text``: why, for the record.
    ``own``: it limits what the run takes by itself, not what it waits for others."""

    at: float
    text: str
    own: bool = False

    def later(self, seconds: float) -> Deadline:
        """What it is after the run has stood still for so long."""
        return replace(self, at=self.at + seconds) if self.own else self


def run_deadline(now: float, timeout: float | None, left: float | None, longest: float) -> Deadline | None:
    """Of the run that begins to prepare ``now``; None where nothing limits it.

    ``timeout``: seconds that each run may take. ``left``: seconds that remain of the budget. No block begins that would
    not end within it, by the runs made so far, of which the ``longest`` took so many seconds. Where none was made that
    can't be told: such a run ends with the budget. A later one that takes a little longer than the others is no reason
    to throw it away; one that takes twice as long as any is.
    """
    limits = [] if timeout is None else [(timeout, ", the limit set by timeout", True)]
    if left is not None and left >= 2 * longest:
        limits.append((left, ": the budget is over", False))
    elif left is not None:
        limits.append((2 * longest, ": the budget is over, and no run so far took half as long", False))
    if not limits:
        return None
    seconds, why, own = min(limits)
    return Deadline(now + seconds, f"timed out after {shown_duration(seconds)}{why}", own)
