"""A cell of the matrix: one arm in one scenario against the reference. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kit.analysis.runs.compare import Comparison
from kit.analysis.stats import estimators
from kit.analysis.stats.estimate import Interval, Verdict, as_ratio
from kit.analysis.stats.estimators import Centre


@dataclass(frozen=True)
class MatrixCell:
    """``time``: logarithm of the ratio to the reference, with the error of the individual interval; None where there is
    none. ``together``: the ratio with the interval that is simultaneous for all arms of its session; the verdict
    rests on it.

    ``bare``: logarithm of the ratio to bare on the arm's filesystem. ``space``, ``written``: the same to the reference,
    of space in use and of bytes written to the device. ``seconds``: what the whole run takes; ``more``: of that, more
    than the reference. ``floor``: standard deviation of the ratio's logarithm that no number of rounds removes; points
    of one session share it. ``visible``: the ratio that bounds the session's control, 1 without one. ``n``: rounds, or
    machines where several are pooled. ``session``: the newest source.
    ``reason``: why there is no figure; ``fix``: what to do about it."""

    arm: str
    verdict: Verdict
    time: Centre | None = None
    together: Interval | None = None
    bare: Centre | None = None
    space: Centre | None = None
    written: Centre | None = None
    seconds: Centre | None = None
    more: Centre | None = None
    floor: float = 0.0
    n: int = 0
    session: str = ""
    reason: str = ""
    fix: str = ""
    visible: float = 1.0

    @property
    def measured(self) -> bool:
        """Return whether there is a figure with an interval."""
        return self.time is not None and self.time.error is not None

    @property
    def common(self) -> tuple[str, float]:
        """Return the session with the error that all its cells share."""
        return self.session, self.floor

    @property
    def half_all(self) -> float:
        """Return the half width of the simultaneous interval, of logarithms; infinite without one."""
        ends = self.together
        return math.log(ends.high / ends.low) / 2 if ends and ends.low and ends.high else math.inf

    @property
    def ratio(self) -> Interval | None:
        """Return the ratio with its individual 95 % interval."""
        return ratio_of(self.time)


def ratio_of(logs: Centre | None) -> Interval | None:
    """Return the ratio with its individual 95 % interval, of a centre of logarithms."""
    return as_ratio(logs.interval()) if logs else None


_END = 0.5 + estimators.CONFIDENCE / 2


def more_than(comparison: Comparison | None) -> Centre | None:
    """Return the mean of the within-round differences to the reference, with the error of its individual interval. An
    error of the reference alone and of the ratio would miss that the reference's runs are part of both."""
    if comparison is None:
        return None
    if comparison.difference_low is None or comparison.difference_high is None:
        return Centre(comparison.difference, None, 0, comparison.n)
    degrees = max(estimators.own_degrees(comparison.n) + comparison.borrowed, 1)
    half = (comparison.difference_high - comparison.difference_low) / 2
    return Centre(comparison.difference, half / estimators.student_quantile(_END, degrees), degrees, comparison.n)
