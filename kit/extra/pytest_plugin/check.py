"""Thresholds as assertions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from kit.analysis.session.threshold import Threshold, rounds_note
from kit.analysis.stats.estimate import LESS, MORE
from kit.model.plan import DEFAULT_MARGIN

if TYPE_CHECKING:
    from kit.analysis.runs.compare import Comparison

WARN, FAIL = "warn", "fail"


class PenaltyError(AssertionError):
    """A penalty lies above its threshold; the comparison with its interval is the message."""


def check(
    threshold: Threshold,
    comparisons: Sequence[Comparison],
    undecided: str = WARN,
    margin: float = DEFAULT_MARGIN,
) -> None:
    """Raises PenaltyError if the whole interval lies above the limit, or the arm was not measured. If the interval
    contains the limit: a warning, or PenaltyError too with ``undecided='fail'``. ``margin``: of equivalence, in the
    message."""
    __tracebackhide__ = True
    if undecided not in (WARN, FAIL):
        raise pytest.UsageError(f"kit_threshold: undecided={undecided!r}: use 'warn' or 'fail'")
    judged = threshold.find(comparisons)
    if not judged:
        of_metric = [comparison for comparison in comparisons if comparison.metric == threshold.metric]
        names = sorted({f"{comparison.arm} {comparison.phase}" for comparison in of_metric})
        raise PenaltyError(f"{threshold}: not measured; there are: {', '.join(names) or 'no comparisons'}")
    for comparison in judged:
        result = threshold.judge(comparison)
        if result == MORE:
            raise PenaltyError(f"{threshold} does not hold\n{_lines(comparison, margin)}")
        if result != LESS:
            why = "the limit lies within the interval" if comparison.low is not None else "one run has no interval"
            text = f"{threshold} is undecided: {why}\n{_lines(comparison, margin)}{_more(comparison, threshold)}"
            if undecided == FAIL:
                raise PenaltyError(text)
            warnings.warn(pytest.PytestWarning(f"kit: {text}"), stacklevel=2)


def _lines(item: Comparison, margin: float) -> str:
    from kit.report.format.interval import percent_interval
    from kit.report.format.verdict import sentence

    at = f" at {item.point}" if item.point else ""
    rounds = f"{item.n} round{'s' if item.n > 1 else ''}"
    return (
        f"  {item.arm} / {item.baseline}{at}, {item.metric} of {item.phase}, {rounds}: "
        f"{percent_interval(item.estimate)}, {sentence(item, margin)}"
    )


def _more(item: Comparison, threshold: Threshold) -> str:
    """Return about how many rounds would decide, if the penalty stays as measured; '' where that is unknown."""
    need = item.rounds_to_tell(threshold.limit)
    if not need or not item.n < need[1] < 1000:
        note = rounds_note(item.n)
        return f"\n  {note}" if note else ""
    few, typical, many = need
    return f"\n  about {typical} rounds (80 % range {max(few, item.n + 1)} to {many}) would decide, if the ratio stays"
