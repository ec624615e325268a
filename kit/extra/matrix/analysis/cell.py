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
    """One arm in one scenario against the reference. ``Centre`` of time, bare, space and written: of the ratio's
    logarithm."""

    arm: str
    verdict: Verdict  # rests on the simultaneous interval
    time: Centre | None = None  # to the reference, with the error of the individual interval; None without a ratio
    # The ratio to the reference, with the interval that is simultaneous for all arms of its session
    together: Interval | None = None
    bare: Centre | None = None  # to bare on the arm's filesystem
    space: Centre | None = None  # to the reference: space in use
    written: Centre | None = None  # to the reference: bytes written to the device
    seconds: Centre | None = None  # of the whole run
    more: Centre | None = None  # of these, more than the reference
    # Standard deviation of the ratio's logarithm that no number of rounds removes; points of one session share it
    floor: float = 0.0
    n: int = 0  # rounds, or machines where several are pooled
    session: str = ""  # the newest source
    reason: str = ""  # why there is no figure
    fix: str = ""  # what to do about it
    visible: float = 1.0  # the ratio that bounds the session's control (A/A); 1 without one

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
