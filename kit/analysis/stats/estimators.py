"""Statistics of paired comparisons: arrays in, intervals out. Pure.

Runs are compared within rounds: each round holds one run of every arm in random order, so slow drift of the machine
cancels in the difference of two runs of one round (randomised complete round design; Montgomery, Design and Analysis
of Experiments, ch. 4). Ratios are analysed as differences of logarithms, which makes "twice" and "half" symmetrical.

Distributions are scipy.special's, imported where they are needed. Of scipy.stats nothing is used: it loads in 1.0 s
instead of 0.4, which every command that shows a figure would wait for; its Kendall test has no correction for
continuity, its Welch test takes neither trimmed means nor an error that arms share. Tests compare with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kit.analysis.stats.estimate import Interval, as_ratio

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
#: From this number of values on, the mean is trimmed: below, trimming costs more than an outlier does.
ROBUST_FROM = 10
TRIM = 0.1
#: A covariate must be significant at this level and leave this many degrees of freedom before it is used.
COVARIATE_LEVEL = 0.01
COVARIATE_DEGREES = 8
#: Below this number of rounds a covariate costs more than it gains.
COVARIATE_ROUNDS = 5
_EXACT = 25  # up to here the null distribution of Kendall's S is counted out


@dataclass(frozen=True)
class Centre:
    """An estimate of the centre of some values with its standard error (None where n < 2) and degrees of freedom."""

    estimate: float
    error: float | None
    degrees: int
    n: int

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        """Return Student's t interval (Student 1908)."""
        if self.error is None:
            return Interval(self.estimate, None, None, self.n)
        half = student_quantile(0.5 + confidence / 2, self.degrees) * self.error
        return Interval(self.estimate, self.estimate - half, self.estimate + half, self.n)


AnyCentre = TypeVar("AnyCentre", bound=Centre)


def own_degrees(n: int) -> int:
    """Return the degrees of freedom of the robust centre's error."""
    return n - 1 if n < ROBUST_FROM else n - 2 * int(TRIM * n) - 1


#: Confidence of the range in which a number of future rounds is given.
RANGE = 0.80


def spread_range(degrees: float) -> tuple[float, float]:
    """Return the factors by which the true standard deviation may be smaller and larger than its estimate. The range
    contains the true value with 80 % (chi-square, with the degrees of freedom of the estimate)."""
    from scipy.special import chdtri

    less, more = (math.sqrt(degrees / float(chdtri(degrees, 0.5 + side * RANGE / 2))) for side in (-1, 1))
    return less, more


@lru_cache(maxsize=1024)
def student_quantile(probability: float, degrees: float) -> float:
    """Return a quantile of Student's t. scipy is imported on use: it takes longer to load than the rest of the kit."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def mean_centre(values: ArrayLike) -> Centre:
    """Return the mean with its error. Student's t is exact for normal data at any n >= 2. Raises ValueError if there
    are no values."""
    data = np.asarray(values, float)
    if not data.size:
        raise ValueError("no values")
    n = data.size
    error = float(data.std(ddof=1)) / math.sqrt(n) if n > 1 else None
    return Centre(float(data.mean()), error, n - 1, n)


def log_mean_centre(values: Floats) -> Centre:
    """Return the logarithm of the mean of positive values with its error (the delta method)."""
    centre = mean_centre(values)
    error = None if centre.error is None else centre.error / centre.estimate
    return replace(centre, estimate=math.log(centre.estimate), error=error)


def log_centre(ratio: Interval | None, degrees: int) -> Centre | None:
    """Return the centre of the ratio's logarithm, with the error that gives the individual interval."""
    if ratio is None or not ratio.estimate:
        return None
    if not ratio.low or not ratio.high:
        return Centre(math.log(ratio.estimate), None, degrees, ratio.n)
    half, degrees = math.log(ratio.high / ratio.low) / 2, max(degrees, 1)
    return Centre(math.log(ratio.estimate), half / student_quantile(0.5 + CONFIDENCE / 2, degrees), degrees, ratio.n)


def robust_centre(values: ArrayLike) -> Centre:
    """The mean below ``ROBUST_FROM`` values, else the mean without a tenth of them at either end, with its standard
    error from the Winsorised variance and h - 1 degrees of freedom, h values being kept (Tukey and McLaughlin 1963).

    Which of the two is a matter of n alone: a choice by what the data look like would spoil the coverage.
    """
    data = np.sort(np.asarray(values, float))
    n = data.size
    if n < ROBUST_FROM:
        return mean_centre(data)
    cut = int(TRIM * n)
    remaining = n - 2 * cut
    winsorised = np.clip(data, data[cut], data[n - cut - 1])
    error = float(winsorised.std(ddof=1)) * math.sqrt(n - 1) / math.sqrt(remaining * (remaining - 1))
    return Centre(float(data[cut : n - cut].mean()), error, own_degrees(n), n)


def welch_ratio(first: Floats, second: Floats, confidence: float = CONFIDENCE) -> Interval | None:
    """Return the ratio of ``second`` to ``first``, from logarithms of either, with its interval by Welch's t test. For
    values that do not pair. None if either is empty."""
    if not first.size or not second.size:
        return None
    return as_ratio(welch(robust_centre(first), robust_centre(second), confidence))


def welch(first: Centre, second: Centre, confidence: float = CONFIDENCE) -> Interval:
    """Return ``second`` less ``first``, each with its own error (Welch 1947)."""
    estimate = second.estimate - first.estimate
    n = min(first.n, second.n)
    if first.error is None or second.error is None:
        return Interval(estimate, None, None, n)
    half = student_quantile(0.5 + confidence / 2, welch_degrees(first, second)) * math.hypot(first.error, second.error)
    return Interval(estimate, estimate - half, estimate + half, n)


def welch_centre(first: Centre, second: Centre) -> Centre:
    """Return ``second`` less ``first`` with its error, ``n`` runs of either at least; its degrees of freedom
    are those of welch_degrees, rounded down."""
    degrees = max(1, int(welch_degrees(first, second)))
    error = None if first.error is None or second.error is None else math.hypot(first.error, second.error)
    return Centre(second.estimate - first.estimate, error, degrees, min(first.n, second.n))


def welch_degrees(first: Centre, second: Centre) -> float:
    """Return the degrees of freedom of the difference of two centres (Satterthwaite 1946; Welch 1947)."""
    variances = (first.error or 0.0) ** 2, (second.error or 0.0) ** 2
    parts = [variance**2 / max(side.degrees, 1) for variance, side in zip(variances, (first, second), strict=True)]
    return sum(variances) ** 2 / sum(parts) if sum(parts) else float(min(first.degrees, second.degrees))


def family_confidence(members: int, confidence: float = CONFIDENCE) -> float:
    """Return the confidence that each of N intervals needs for all to be simultaneous (Bonferroni; Dunn 1961). Valid
    for any dependence between the comparisons, which share their baseline."""
    return 1 - (1 - confidence) / max(members, 1)


@dataclass(frozen=True)
class Covariate:
    """A covariate that explains part of the noise: y changes by ``slope`` when the covariate changes by 1."""

    slope: float
    slope_error: float
    variance_left: float  # share of the residual variance that stays, degrees of freedom accounted for
    degrees: int  # of the residuals that the slope was fitted to: many more than one arm has

    def centre(self, differences: Floats, away: Floats) -> Centre:
        """Return the centre of differences, adjusted to equal covariates in both arms; ``away``: their actual
        difference. Residuals of a fit are too small by the degree of freedom that the fit used."""
        centre = robust_centre(differences - self.slope * away)
        if centre.error is None:
            return centre
        return replace(centre, error=centre.error * math.sqrt((self.degrees + 1) / self.degrees))

    def widen(self, centre: AnyCentre, away: Floats) -> AnyCentre:
        """Add the slope's own error (analysis of covariance). All arms share the slope, so no arm loses a degree of
        freedom."""
        if centre.error is None:
            return centre
        return replace(centre, error=math.hypot(centre.error, self.slope_error * float(away.mean())))


def find_covariate(y: Floats, x: Floats) -> Covariate | None:
    """Return the covariate if ``x`` explains noise of ``y``, else None; both are ``residuals``.

    Analysis of covariance in a randomised round design (Montgomery ch. 15): the residuals of y are regressed on those
    of x over all arms together. The covariate is used only if that regression is significant (F test at
    ``COVARIATE_LEVEL``). The rule is fixed beforehand and the same for every arm."""
    rounds, arms = y.shape
    degrees = (rounds - 1) * (arms - 1) - 1
    if rounds < COVARIATE_ROUNDS or degrees < COVARIATE_DEGREES:
        return None
    sxx, sxy, syy = float((x * x).sum()), float((x * y).sum()), float((y * y).sum())
    if sxx <= 0 or syy <= 0:
        return None
    slope = sxy / sxx
    unexplained = max(syy - slope * sxy, 0.0)
    variance = unexplained / degrees
    slope_error = math.sqrt(variance / sxx)
    if slope_error == 0 or abs(slope) / slope_error < student_quantile(1 - COVARIATE_LEVEL / 2, degrees):
        return None
    return Covariate(slope, slope_error, variance / (syy / (degrees + 1)), degrees)


def residuals(values: Floats) -> Floats:
    """Return rounds x arms, without gaps, less the means of rounds and of arms."""
    deviations: Floats = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    return deviations


@dataclass(frozen=True)
class Trend:
    """A trend of values in their order: ``slope`` per step, ``p`` the probability of as clear a trend at random."""

    slope: float
    p: float


def find_trend(values: ArrayLike) -> Trend | None:
    """Return the Mann-Kendall test (Mann 1945; Kendall 1975) with the slope of Theil and Sen (Sen 1968). None below 4
    values.

    Rank statistics: one distant run can neither make a trend nor hide one. Above 2,000 values every k-th is taken."""
    data = np.asarray(values, float)
    step = max(1, -(-data.size // 2000))
    data = data[::step]
    n = data.size
    if n < 4:
        return None
    steps = np.arange(1, n)
    rises = np.concatenate([data[i:] - data[i - 1] for i in steps])
    score = int(np.sign(rises).sum())
    slope = float(np.median(rises / np.concatenate([steps[: n - i] for i in steps]))) / step
    ties = int((rises == 0).sum())
    return Trend(slope, _kendall_exact(score, n) if n <= _EXACT and not ties else _kendall_normal(score, data))


def _kendall_exact(score: int, n: int) -> float:
    """Return the two-sided p from the number of permutations with each count of inversions."""
    counts = np.ones(1)
    for k in range(2, n + 1):
        counts = np.convolve(counts, np.ones(k) / k)
    pairs = n * (n - 1) // 2
    fewer = (pairs - abs(score)) // 2
    return min(1.0, 2 * float(counts[: fewer + 1].sum()))


def _kendall_normal(score: int, data: Floats) -> float:
    n = data.size
    groups = np.unique(data, return_counts=True)[1].astype(float)
    variance = (n * (n - 1) * (2 * n + 5) - float((groups * (groups - 1) * (2 * groups + 5)).sum())) / 18
    if variance <= 0:
        return 1.0
    z = max(abs(score) - 1, 0) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def least_squares_slopes(x: ArrayLike, rows: Floats) -> Floats:
    """Return the slope over x of each row of ``rows`` (one row a round, one column a value of x)."""
    away = np.asarray(x, float) - float(np.mean(np.asarray(x, float)))
    slopes: Floats = rows @ away / float((away * away).sum())
    return slopes
