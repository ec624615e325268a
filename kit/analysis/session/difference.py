"""The difference of two arms, with intervals that are simultaneous for a family of pairs. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kit.analysis.runs.compare import Comparison
from kit.analysis.runs.paired import Paired, Unpaired
from kit.analysis.stats import estimators, variance_pooling
from kit.analysis.stats.estimate import Estimate, Interval, as_ratio


@dataclass(frozen=True)
class Difference:
    """One arm over another."""

    arm: str
    other: str
    ratio: Estimate  # its simultaneous interval is that of the family of the pair
    spread: float | None = None  # standard deviation of one round's log ratio
    degrees: int = 0  # degrees of freedom with which the spread is estimated
    floor: float = 0.0  # standard deviation of what no number of rounds removes
    #: Half widths of the two simultaneous intervals, in standard errors.
    quantiles: tuple[float, float] = (0.0, 0.0)
    lasting: tuple[float, float] = (0.0, 0.0)  # the same half widths for the floor
    family: int = 1  # number of comparisons, at all points of a sweep

    def of_baseline(self, comparison: Comparison) -> Difference:
        """Return the difference with the figures of the session's own comparison of the same arms: an arm and its
        baseline have one interval of each kind."""
        if comparison.estimate is None:
            return self
        degrees = estimators.own_degrees(comparison.n) + comparison.borrowed
        difference = replace(
            self,
            ratio=comparison.estimate,
            spread=comparison.spread,
            degrees=degrees,
            floor=comparison.copies,
            family=comparison.family,
        )
        lasting = variance_pooling.lasting_quantiles(comparison.family)
        together = difference._errors(difference.ratio.together, lasting[0])
        bounded = difference._errors(difference.ratio.bounded or difference.ratio.together, lasting[1])
        return replace(difference, quantiles=(together, bounded), lasting=lasting)

    def _errors(self, interval: Interval, lasting: float) -> float:
        """Return the half width of an interval in standard errors of the rounds, without the floor."""
        if not interval.low or not interval.high or not self.spread:
            return 0.0
        half = math.log(interval.high / interval.low) / 2
        return math.sqrt(max(half**2 - (lasting * self.floor) ** 2, 0.0)) / (self.spread / math.sqrt(interval.n))

    @property
    def turned(self) -> Difference:
        """Return the same difference with the other arm first."""
        return replace(self, arm=self.other, other=self.arm, ratio=self.ratio.inverse)


@dataclass(frozen=True)
class PairSet:
    """Pairs of arms at one point, which share the estimate of the noise."""

    pairs: Sequence[Paired]
    rounds: int  # those that intervals are widened for; 0 where their number was fixed beforehand
    points: int  # number of points of the sweep, which divide the error among them
    visible: float = 1.0  # the ratio that bounds the control

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
        judged = [replace(contrast, counted=counts) for contrast, counts in zip(self._contrasts, counted, strict=True)]
        shared = variance_pooling.share(judged, size, self.rounds)
        differences = {}
        for pair, counts, centre in zip(self.pairs, counted, shared, strict=True):
            if counts:
                difference = _difference(pair, centre, size, self.visible)
                differences[difference.arm, difference.other] = difference
                differences[difference.other, difference.arm] = difference.turned
        return differences


def _difference(pair: Paired, shared: variance_pooling.PooledEstimate, family: int, visible: float) -> Difference:
    centre = pair.widen(shared)
    quantiles = shared.together, shared.bounded
    spread = None if isinstance(pair, Unpaired) else centre.spread  # of a round, which unpaired runs have not
    ratio = replace(as_ratio(centre.estimated()), visible=visible)
    return Difference(
        pair.arm[0], pair.base[0], ratio, spread, centre.degrees, pair.copies, quantiles, shared.lasting, family
    )
