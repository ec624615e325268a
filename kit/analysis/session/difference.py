"""The difference of two arms, with intervals that are simultaneous for a family of pairs. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kit.analysis.runs.compare import Comparison
from kit.analysis.runs.paired import Paired, Unpaired
from kit.analysis.session.stopping import widening
from kit.analysis.stats import estimators, variance_pooling
from kit.analysis.stats.estimate import LARGEST, as_ratio, exp, is_equivalent, within_margin


@dataclass(frozen=True)
class Difference:
    """One arm over another: ``ratio`` with its individual 95 % interval, and ``low_all`` to ``high_all``, which is
    simultaneous in the family of the pair. ``low_bound`` to ``high_bound`` is the simultaneous 90 % interval, of two
    one-sided tests. Intervals are None where a single round contains both.

    ``spread``: standard deviation of one round's log ratio, estimated with ``degrees`` degrees of freedom; ``floor``:
    that of what no number of rounds removes. ``quantiles``: half widths of the two simultaneous intervals, in standard
    errors; ``lasting``: the same of the floor. ``family``: the number of comparisons, at all points of a sweep.
    ``visible``: the ratio that bounds the session's control (kit.analysis.stats.estimate); 1 without a control.
    """

    arm: str
    other: str
    ratio: float
    low: float | None
    high: float | None
    low_all: float | None
    high_all: float | None
    n: int
    low_bound: float | None = None
    high_bound: float | None = None
    spread: float | None = None
    degrees: int = 0
    floor: float = 0.0
    quantiles: tuple[float, float] = (0.0, 0.0)
    lasting: tuple[float, float] = (0.0, 0.0)
    family: int = 1
    visible: float = 1.0

    @property
    def significant(self) -> bool:
        """Return whether the simultaneous interval excludes 1."""
        return self.low_all is not None and self.high_all is not None and not self.low_all <= 1 <= self.high_all

    def equivalent(self, margin: float) -> bool:
        """Return whether the session shows a ratio within the margin."""
        return is_equivalent(self.low_bound, self.high_bound, self.n, margin, self.visible)

    def withheld(self, margin: float) -> bool:
        """Return whether the tests show a ratio within the margin, but the session has too few rounds or too noisy a
        control to say so."""
        within = within_margin(self.low_bound, self.high_bound, margin)
        return within and not self.equivalent(margin)

    def of_baseline(self, item: Comparison) -> Difference:
        """Return the difference with the figures of the session's own comparison of the same arms: an arm and its
        baseline have one interval of each kind."""
        if item.ratio is None:
            return self
        degrees = estimators.own_degrees(item.n) + item.borrowed
        made = replace(
            self, ratio=item.ratio, low=item.low, high=item.high, low_all=item.low_all, high_all=item.high_all,
            n=item.n, low_bound=item.low_bound, high_bound=item.high_bound, spread=item.spread, degrees=degrees,
            floor=item.copies, family=item.family, visible=item.visible,
        )  # fmt: skip
        lasting = variance_pooling.lasting_quantiles(item.family)
        together = made._errors(item.low_all, item.high_all, lasting[0])
        bounded = made._errors(item.low_bound, item.high_bound, lasting[1])
        return replace(made, quantiles=(together, bounded), lasting=lasting)

    def _errors(self, low: float | None, high: float | None, lasting: float) -> float:
        """Return the half width of an interval in standard errors of the rounds, without the floor."""
        if not low or not high or not self.spread:
            return 0.0
        half = math.log(high / low) / 2
        return math.sqrt(max(half**2 - (lasting * self.floor) ** 2, 0.0)) / (self.spread / math.sqrt(self.n))

    @property
    def turned(self) -> Difference:
        """Return the same difference with the other arm first."""
        low, high, low_all, high_all, low_bound, high_bound = (
            None if end is None else 1 / end if end else exp(LARGEST)
            for end in (self.high, self.low, self.high_all, self.low_all, self.high_bound, self.low_bound)
        )
        return replace(
            self, arm=self.other, other=self.arm, ratio=1 / self.ratio, low=low, high=high, low_all=low_all,
            high_all=high_all, low_bound=low_bound, high_bound=high_bound,
        )  # fmt: skip


@dataclass(frozen=True)
class PairSet:
    """Pairs of arms at one point, which share the estimate of the noise. ``rounds``: those that intervals are widened
    for, 0 where their number was fixed beforehand. ``points``: number of points of the sweep, which divide the error
    among them. ``visible``: the ratio that bounds the control."""

    pairs: Sequence[Paired]
    rounds: int
    points: int
    visible: float = 1.0

    @cached_property
    def _contrasts(self) -> list[variance_pooling.Contrast]:
        return [pair.ratio() for pair in self.pairs]

    def differences(self, family: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Difference]:
        """Return the pairs of this family in both directions, with intervals that are simultaneous for the family at
        all points."""
        members = set(family)
        counted = [(pair.arm[0], pair.base[0]) in members for pair in self.pairs]
        size = sum(counted) * self.points
        if not size:
            return {}
        judged = [replace(item, counted=one) for item, one in zip(self._contrasts, counted, strict=True)]
        shared = variance_pooling.share(judged, size, widening(self.rounds))
        found = {}
        for pair, one, centre in zip(self.pairs, counted, shared, strict=True):
            if one:
                item = replace(_difference(pair, centre, size), visible=self.visible)
                found[item.arm, item.other], found[item.other, item.arm] = item, item.turned
        return found


def _difference(pair: Paired, shared: variance_pooling.PooledEstimate, family: int) -> Difference:
    centre = pair.widen(shared)
    alone, together, bounded = (
        as_ratio(found) for found in (centre.interval(), centre.interval_together(), centre.interval_bounded())
    )
    quantiles = shared.together, shared.bounded
    spread = None if isinstance(pair, Unpaired) else centre.spread  # of a round, which unpaired runs have not
    return Difference(
        pair.arm[0], pair.base[0], alone.estimate, alone.low, alone.high, together.low, together.high, alone.n,
        bounded.low, bounded.high, spread, centre.degrees, pair.copies, quantiles, shared.lasting, family,
    )  # fmt: skip
