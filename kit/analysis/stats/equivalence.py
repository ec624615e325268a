"""When two arms may be called equivalent: the one rule of rankings, comparisons, cells and means. Pure.

Two one-sided 5 % tests must show a difference within the margin (Schuirmann 1987). Their intervals were proved from
DECIDE_FROM rounds on, where a session first looks at its answer. So fewer rounds never show equivalence. Neither does a
session whose control fails the same tests: it cannot tell two identical arms from arms that differ by the margin.
docs/explanation/method.md has the reasons, benchmarks/proofs/equivalence.py the error rates.
"""

from __future__ import annotations

from kit.analysis.stats import estimators
from kit.model.plan import DECIDE_FROM


def is_equivalent(low: float | None, high: float | None, n: int, margin: float, visible: float = 1.0) -> bool:
    """Return whether an interval of ratios shows equivalence.

    ``low`` and ``high``: of the interval for two one-sided tests. ``n``: number of rounds, or of machines where these
    are the sample. ``margin``: 0.03 for 3 %. ``visible``: the ratio that the session's control bounds, as
    ``visible_ratio`` returns it; 1 without a control."""
    return n >= DECIDE_FROM and visible <= 1 + margin and within_margin(low, high, margin)


def within_margin(low: float | None, high: float | None, margin: float) -> bool:
    """Return whether an interval of ratios lies between 1 / (1 + margin) and 1 + margin. These limits are the same for
    either arm as reference. False without an interval."""
    return low is not None and high is not None and 1 / (1 + margin) <= low and high <= 1 + margin


def visible_ratio(low: float | None, high: float | None) -> float:
    """Return the least ratio that bounds the interval of a control on both sides: two identical arms differ by less.
    The largest one without an interval: JSON has no infinity."""
    return max(high, 1 / low) if low and high else estimators.exp(estimators.LARGEST)
