"""The weighted mean of estimates, each with its own error; those of one session share a part of it. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from kit.analysis.stats.estimators import CONFIDENCE, Centre, student_quantile
from kit.analysis.stats.variance_pooling import MANY

#: A session, and the standard deviation of what no number of its rounds removes: all its estimates share that.
Common = tuple[str, float]


def weighted_mean(parts: Sequence[tuple[float, Centre]], common: Sequence[Common] = ()) -> Centre | None:
    """Return the weighted mean of estimates of a fixed set, with its error; None without a positive weight.

    Estimates of different sessions are independent. The mean's variance is the sum of theirs, times the squares of the
    weights' shares. Points of a sweep are of one session, and their common errors add up themselves. The half width of
    its interval is the root of the sum of squares of the members' half widths, times their shares (method of variance
    estimates recovery; Zou and Donner 2008, doi:10.1002/sim.3095). To the first order that is Student's t with the
    harmonic mean of the degrees of freedom, weighted by variance, here rounded down. Satterthwaite's degrees (1946) are
    more, and their intervals hold less often where one arm is far noisier than the others:
    benchmarks/proofs/matrix.py. The interval covers the mean of these members: it says nothing of others, so how the
    members differ does not widen it.

    ``parts``: weight and estimate; those of weight 0 are left out. One without an error leaves the mean without one.
    ``common``: of each part; empty where no two are of one session."""
    counted = [(weight, centre) for weight, centre in parts if weight > 0]
    total = sum(weight for weight, _ in counted)
    if not counted or not math.isfinite(total):
        return None
    shares = [(weight / total, centre) for weight, centre in counted]
    estimate = sum(share * centre.estimate for share, centre in shares)
    errors = [share * centre.error for share, centre in shares if centre.error is not None]
    if len(errors) < len(shares):
        return Centre(estimate, None, 0, len(shares))
    variance = math.fsum(error**2 for error in errors)
    degrees = min(centre.degrees for _, centre in shares)
    spread = math.fsum(error**2 / centre.degrees for error, (_, centre) in zip(errors, shares, strict=True))
    if spread:
        degrees = max(degrees, int(variance / spread))
    counted_common = (
        [common_error for (weight, _), common_error in zip(parts, common, strict=True) if weight > 0] if common else []
    )
    many = student_quantile(0.5 + CONFIDENCE / 2, MANY)
    added = _across(
        [
            (session, share * floor * many / student_quantile(0.5 + CONFIDENCE / 2, centre.degrees))
            for (share, centre), (session, floor) in zip(shares if counted_common else [], counted_common, strict=True)
        ]
    )
    return Centre(estimate, math.sqrt(variance + added), degrees, len(shares))


def weighted_half(parts: Sequence[tuple[float, float]], common: Sequence[Common] = ()) -> float:
    """Return the half width of the weighted mean's interval: the root of the sum of squares of the members' half
    widths, times their weights' shares. ``parts``: weight and half width, each weight positive. ``common``: of each
    part, as half widths."""
    total = math.fsum(weight for weight, _ in parts)
    independent = math.fsum((weight / total * half) ** 2 for weight, half in parts)
    shared = [(session, weight / total * half) for (weight, _), (session, half) in zip(parts, common, strict=False)]
    return math.sqrt(independent + _across(shared))


def _across(errors: Sequence[Common]) -> float:
    """Return what errors that add up themselves have more than the sum of their squares."""
    sums: dict[str, float] = defaultdict(float)
    for session, error in errors:
        sums[session] += error
    return max(0.0, math.fsum(error_sum**2 for error_sum in sums.values()) - math.fsum(error**2 for _, error in errors))
