"""An estimate: a value with its intervals, and all that may be said of it. Pure.

*Equivalent* is one rule for rankings, comparisons, cells and means. Two one-sided 5 % tests must show a difference
within the margin (Schuirmann 1987). Their intervals were proved from DECIDE_FROM rounds on, where a session first looks
at its answer. So fewer rounds never show equivalence. Neither does a session whose control fails the same tests: it
cannot tell two identical arms from arms that differ by the margin. docs/explanation/method.md has the reasons,
benchmarks/proofs/equivalence.py the error rates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from kit.model.plan import DECIDE_FROM

LARGEST = 709.0  # the largest logarithm of a float

#: Of an interval beside a value, which is a limit or no effect.
MORE: Final = "more"
LESS: Final = "less"
NOT_SIGNIFICANT: Final = "not significant"
NO_INTERVAL: Final = "no interval"
#: Of an arm beside the reference, at a margin. ``slower`` is worse and ``faster`` better in any metric.
REFERENCE: Final = "reference"
SLOWER: Final = "slower"
FASTER: Final = "faster"
EQUIVALENT: Final = "equivalent"
INCONCLUSIVE: Final = "inconclusive"
#: Of an arm without an interval: a single round; one that could not run, with the reason; one that ran alike on too few
#: machines to be pooled; one that no session has.
ONE_ROUND: Final = "one round"
NOT_RUN: Final = "not run"
TOO_FEW: Final = "too few machines"
NOT_MEASURED: Final = "not measured"

Verdict = Literal[
    "more", "less", "not significant", "no interval", "reference", "slower", "faster", "equivalent", "inconclusive",
    "one round", "not run", "too few machines", "not measured", "",
]  # fmt: skip

_SIGNIFICANT = "significant: the simultaneous interval excludes 0 %, and the arm is not equivalent"
#: What each verdict of an arm beside the reference means.
VERDICTS: Mapping[Verdict, str] = {
    SLOWER: f"{_SIGNIFICANT}. *Slower, but not significant after correcting for 7 comparisons*: measure again before "
    "you believe it. Of many arms without a cost one often looks slower",
    FASTER: _SIGNIFICANT,
    EQUIVALENT: "within ±3 % (`--margin`), by the simultaneous 90 % interval. The printed one, of 95 %, may reach a "
    "little further. It takes 3 rounds and a control within the margin; a note says what is missing",
    INCONCLUSIVE: "none of these. *80 % power for 3.1 %*: a penalty of 3.1 % is significant in four sessions of five. "
    "In the fifth it is missed. The arm may cost the upper end of its simultaneous interval, which `--explain` prints. "
    'That is not "no overhead"',
    REFERENCE: "what others are compared with",
}


@dataclass(frozen=True)
class Interval:
    """A point estimate with its two-sided confidence interval; ``low`` and ``high`` are None where n < 2."""

    estimate: float
    low: float | None
    high: float | None
    n: int

    def leaves_out(self, value: float) -> bool:
        """Return whether there is an interval without ``value`` in it."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high

    def beside(self, value: float) -> Verdict:
        """Return on which side of the value the whole interval lies."""
        if self.low is None or self.high is None:
            return NO_INTERVAL
        if not self.leaves_out(value):
            return NOT_SIGNIFICANT
        return MORE if self.low > value else LESS


def judge(interval: Interval, n: int, margin: float, visible: float = 1.0) -> Verdict:
    """Return the verdict of a simultaneous interval of ratios. ``n`` and ``visible``: as is_equivalent takes them."""
    if is_equivalent(interval.low, interval.high, n, margin, visible):
        return EQUIVALENT
    sides: dict[Verdict, Verdict] = {MORE: SLOWER, LESS: FASTER, NO_INTERVAL: ONE_ROUND}
    return sides.get(interval.beside(1.0), INCONCLUSIVE)


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
    return max(high, 1 / low) if low and high else exp(LARGEST)


def as_ratio(logs: Interval) -> Interval:
    """Return an interval of logarithms as one of ratios."""
    low = None if logs.low is None else exp(logs.low)
    high = None if logs.high is None else exp(logs.high)
    return Interval(exp(logs.estimate), low, high, logs.n)


def exp(value: float) -> float:
    """Return exp, limited to finite floats, since JSON has no infinity. With two noisy runs the t quantile of 12.7 can
    make a bound overflow."""
    return math.exp(min(value, LARGEST))
