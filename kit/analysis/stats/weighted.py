"""The weighted mean of independent estimates, each with its own error. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kit.analysis.stats.estimators import Centre


def weighted_mean(parts: Sequence[tuple[float, Centre]]) -> Centre | None:
    """Return the weighted mean of estimates of a fixed set, with its error; None without a positive weight.

    The estimates are independent, since each is from a session of its own. The mean's variance is the sum of theirs,
    times the squares of the weights' shares. The half width of its interval is the root of the sum of squares of the
    members' half widths, times their shares (method of variance estimates recovery; Zou and Donner 2008,
    doi:10.1002/sim.3095). To the first order that is Student's t with the harmonic mean of the degrees of freedom,
    weighted by variance, here rounded down. Satterthwaite's degrees (1946) are more, and their intervals hold less
    often where one arm is far noisier than the others: benchmarks/proofs/matrix.py. The interval covers the mean of
    these members: it says nothing of others, so how the members differ does not widen it.

    ``parts``: weight and estimate; those of weight 0 are left out. One without an error leaves the mean without one."""
    counted = [(weight, item) for weight, item in parts if weight > 0]
    total = sum(weight for weight, _ in counted)
    if not counted or not math.isfinite(total):
        return None
    shares = [(weight / total, item) for weight, item in counted]
    estimate = sum(share * item.estimate for share, item in shares)
    errors = [share * item.error for share, item in shares if item.error is not None]
    if len(errors) < len(shares):
        return Centre(estimate, None, 0, len(shares))
    variance = math.fsum(error**2 for error in errors)
    degrees = min(item.degrees for _, item in shares)
    spread = math.fsum(error**2 / item.degrees for error, (_, item) in zip(errors, shares, strict=True))
    if spread:
        degrees = max(degrees, int(variance / spread))
    return Centre(estimate, math.sqrt(variance), degrees, len(shares))


def weighted_half(parts: Sequence[tuple[float, float]]) -> float:
    """Return the half width of the weighted mean's interval: the root of the sum of squares of the members' half
    widths, times their weights' shares. ``parts``: weight and half width, each weight positive."""
    total = math.fsum(weight for weight, _ in parts)
    return math.hypot(*(weight / total * half for weight, half in parts))
