"""An estimate: a value with its intervals, and all that may be said of it. Pure.

*Equivalent* is one rule for rankings, comparisons, cells and means. Two one-sided 5 % tests must show a difference
within the margin (Schuirmann 1987). Their intervals were proved from DECIDE_FROM rounds on, where a session first looks
at its answer. So fewer rounds never show equivalence. Neither does a session whose control fails the same tests: it
cannot tell two identical arms from arms that differ by the margin. docs/explanation/method.md has the reasons,
benchmarks/proofs/equivalence.py the error rates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, Self, TypeVar

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
AnyInterval = TypeVar("AnyInterval", bound="Interval")

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

    def within(self, margin: float) -> bool:
        """Return whether an interval of ratios lies between 1 / (1 + margin) and 1 + margin. These limits are the same
        for either arm as reference. False without an interval."""
        limit = 1 + margin
        return self.low is not None and self.high is not None and 1 / limit <= self.low and self.high <= limit

    def map(self, function: Callable[[float], float]) -> Self:
        """Return the estimate and its ends by a function that rises."""
        low, high = (None if end is None else function(end) for end in (self.low, self.high))
        return replace(self, estimate=function(self.estimate), low=low, high=high)

    @property
    def inverse(self) -> Self:
        """Return 1 / the ratio."""
        turned = self.map(lambda end: 1 / end if end else exp(LARGEST))
        return replace(turned, low=turned.high, high=turned.low)


@dataclass(frozen=True)
class Estimate(Interval):
    """A ratio or a difference. The individual 95 % interval is its own."""

    together: Interval  # the 95 % interval that is simultaneous with all of its family
    #: The simultaneous 90 % interval, of two one-sided tests; None where ``together`` decides.
    bounded: Interval | None = None
    visible: float = 1.0  # the ratio that bounds the session's control; 1 without one
    neutral: float = 1.0  # the value of no effect

    @property
    def verdict(self) -> Verdict:
        """Return that of the individual interval."""
        return self.beside(self.neutral)

    @property
    def significant(self) -> bool:
        """Return whether the simultaneous interval leaves out no effect."""
        return self.together.leaves_out(self.neutral)

    def equivalent(self, margin: float, n: int = 0) -> bool:
        """Return whether two one-sided tests show a ratio within the margin, and the session can say so. ``n``: number
        of rounds where these are not the sample."""
        enough = (n or self.n) >= DECIDE_FROM and self.visible <= 1 + margin
        return enough and (self.bounded or self.together).within(margin)

    def withheld(self, margin: float) -> bool:
        """Return whether the tests show a ratio within the margin, but the session has too few rounds or too noisy a
        control to say so."""
        return (self.bounded or self.together).within(margin) and not self.equivalent(margin)

    def judge(self, margin: float, better: str = LESS, n: int = 0) -> Verdict:
        """Return the verdict of the simultaneous interval at the margin. ``better``: ``more`` or ``less``."""
        if self.together.low is None:
            return ONE_ROUND
        if self.equivalent(margin, n):
            return EQUIVALENT
        if not self.significant:
            return INCONCLUSIVE
        return FASTER if self.together.beside(self.neutral) == better else SLOWER

    def map(self, function: Callable[[float], float]) -> Self:
        bounded = self.bounded and self.bounded.map(function)
        together, neutral = self.together.map(function), function(self.neutral)
        return replace(super().map(function), together=together, bounded=bounded, neutral=neutral)

    @property
    def inverse(self) -> Self:
        return replace(super().inverse, together=self.together.inverse, bounded=self.bounded and self.bounded.inverse)


def visible_ratio(control: Interval) -> float:
    """Return the least ratio that bounds the interval of a control on both sides: two identical arms differ by less.
    The largest one without an interval: JSON has no infinity."""
    return max(control.high, 1 / control.low) if control.low and control.high else exp(LARGEST)


def as_ratio(logs: AnyInterval) -> AnyInterval:
    """Return an interval of logarithms as one of ratios."""
    return logs.map(exp)


def exp(value: float) -> float:
    """Return exp, limited to finite floats, since JSON has no infinity. With two noisy runs the t quantile of 12.7 can
    make a bound overflow."""
    return math.exp(min(value, LARGEST))
