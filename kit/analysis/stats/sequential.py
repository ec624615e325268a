"""Intervals of a mean that hold at every look: sequential t tests of a normal mean with unknown variance. Pure.

``log_evidence`` is the logarithm of a likelihood ratio of the t statistic: a mean above zero, with a half-normal prior
on mean / standard deviation, against a mean of zero. Scale mixed out (right Haar prior), it is a martingale where the
mean is zero, whatever the variance (Lai 1976, doi:10.1214/aos/1176343406; with a normal prior on the mean: Wang and
Ramdas 2024, arXiv:2310.03722; Pérez-Ortiz et al. 2024, arXiv:2208.07610). So it reaches 1 / error at any look of any
number with this probability at most (Ville 1939). It grows with t. So the test of "zero or less" errs as seldom, and
all means that a test does not reject are a half line. Two half lines are an interval: mean ± quantile x standard error,
as Student's, with a larger quantile. docs/explanation/bisection.md has the proof, and the simulations that chose
``EFFECT``.
"""

from __future__ import annotations

import math
from functools import lru_cache

from kit.analysis.stats.estimators import Centre, Interval

#: Standard deviation of the prior: what is sought is a few standard deviations of a round's log ratio. Any value gives
#: valid intervals.
EFFECT = 3.0
#: The largest t that is searched; beyond it the evidence does not grow.
_LARGEST = 1e9


def log_evidence(n: int, t: float) -> float:
    """Return the logarithm of the evidence of ``n`` values that their mean lies above zero. ``t``: their mean divided
    by its standard error."""
    from scipy.special import stdtr

    weight, free = 1 / EFFECT**2, n - 1
    scale = (n + weight) * free + weight * t * t
    above = float(stdtr(n, n * t / math.sqrt(scale)))  # posterior probability of a mean above zero
    if above <= 0:
        return -math.inf
    two_sided = (math.log(weight / (n + weight)) - n * math.log(scale / ((n + weight) * (free + t * t)))) / 2
    return two_sided + math.log(2 * above)


@lru_cache(maxsize=4096)
def sequential_quantile(n: int, error: float) -> float:
    """Return the t at which ``n`` values reject, so that all looks together err with probability ``error`` at most on
    that side; infinite if so few values never do."""
    wanted = -math.log(error)
    if n < 2 or log_evidence(n, _LARGEST) < wanted:
        return math.inf
    low, high = 0.0, 1.0
    while log_evidence(n, high) < wanted:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if log_evidence(n, middle) < wanted else (low, middle)
    return high


def sequential_interval(centre: Centre, error: float, known: float = 0.0) -> Interval:
    """Return the interval each end of which errs with probability ``error`` at most over all looks. ``known``: an error
    of the centre that is the same at all looks (standard deviation). The two add up as independent errors do; of the
    known one half the probability counts, since its sum with the other is largest at several looks."""
    quantile = math.inf if centre.error is None else sequential_quantile(centre.n, error)
    if math.isinf(quantile):
        return Interval(centre.estimate, None, None, centre.n)
    half = math.hypot(quantile * (centre.error or 0.0), _normal_quantile(1 - error / 2) * known)
    return Interval(centre.estimate, centre.estimate - half, centre.estimate + half, centre.n)


def _normal_quantile(probability: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(probability))
