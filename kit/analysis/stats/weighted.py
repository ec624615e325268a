"""The weighted mean of independent estimates, each with its own error. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kit.analysis.stats.estimators import Centre


def weighted_mean(parts: Sequence[tuple[float, Centre]]) -> Centre | None:
    """Return the weighted mean of estimates of a fixed set, with its error; None without a positive weight.

    The estimates are independent, since each is from a session of its own. The mean's variance is the sum of theirs,
    times the squares of the weights' shares. Its degrees of freedom are those of a sum of variances (Satterthwaite
    1946, Biometrics Bulletin 2(6), doi:10.2307/3002019; Welch 1947), rounded down. The interval covers the mean of
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
    spread = math.fsum(error**4 / item.degrees for error, (_, item) in zip(errors, shares, strict=True))
    if spread:
        degrees = max(degrees, int(variance**2 / spread))
    return Centre(estimate, math.sqrt(variance), degrees, len(shares))
