"""Dependence between nights: its size, and the level changes that remain significant despite it. Pure.

If each night resembles the last, a few in a row lie above the mean at random. A test that assumes independence then
sees a new level. The dependence is estimated as that of an AR(1) process, from the values' deviations within their
levels. The means of two levels are then compared with the variance that such a process gives them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kit.analysis.stats.estimate import Interval
from kit.analysis.stats.estimators import CONFIDENCE, Floats, student_quantile

#: Assumed dependence of an unknown series, and its weight in nights: a short series shows little.
USUAL, _WEIGHT = 0.3, 20
#: The largest dependence: at 1 the variance of a mean would be without a bound.
_MOST = 0.9
#: Level of the t test that allows for dependence (benchmarks/proofs/nightly.py: its error rate and power).
LEVEL = 0.0003


def find_dependence(values: Sequence[float], points: Sequence[int]) -> float:
    """Return the correlation of a value with the previous one, between 0 and 0.9, without levels, which begin at
    ``points``. The bias from removed means is corrected (Kendall 1954); short series are shrunk towards ``USUAL``."""
    data = np.asarray(values, float)
    residuals = np.concatenate([part - part.mean() for part in np.split(data, list(points))])
    squares = float(residuals @ residuals)
    if data.size < 4 or not squares:
        return USUAL
    correlation = float(residuals[1:] @ residuals[:-1]) / squares
    correlation += (1 + 3 * correlation) * (len(points) + 1) / data.size
    return min(max((correlation * data.size + USUAL * _WEIGHT) / (data.size + _WEIGHT), 0.0), _MOST)


def keep_points(values: Sequence[float], points: Sequence[int]) -> dict[int, float]:
    """Return the places where a new level begins with a p below LEVEL, each with its p. The least certain place is left
    out first, since its neighbours' levels are longer without it."""
    data, remaining = np.asarray(values, float), list(points)
    dependence = find_dependence(values, points)
    while remaining:
        edges = [0, *remaining, data.size]
        chances = [
            find_chance(data[edges[i] : point], data[point : edges[i + 2]], dependence)
            for i, point in enumerate(remaining)
        ]
        worst = max(range(len(remaining)), key=lambda i: chances[i])
        if chances[worst] <= LEVEL:
            return dict(zip(remaining, chances, strict=True))
        del remaining[worst]
    return {}


def find_chance(before: Floats, after: Floats, dependence: float) -> float:
    """Return the two-sided p of Student's t test with the variances of means of an AR(1) process."""
    from scipy.special import stdtr

    estimate = _error(before, after, dependence)
    if estimate is None:
        return 1.0
    error, degrees = estimate
    away = abs(float(after.mean() - before.mean()))
    if not error:
        return 0.0 if away else 1.0
    return 2 * float(stdtr(degrees, -away / error))


def find_shift(before: Sequence[float], after: Sequence[float], dependence: float) -> Interval:
    """Return the mean of ``after`` less that of ``before`` with its 95 % interval, with the variances of means of an
    AR(1) process. Both levels share their scatter. ``dependence``: the estimate from these values. The interval uses
    one half a standard error larger, since the estimate's own error reduces coverage (benchmarks/proofs/nightly.py has
    the coverage)."""
    early, late = np.asarray(before, float), np.asarray(after, float)
    away, n = float(late.mean() - early.mean()), min(early.size, late.size)
    larger = dependence + math.sqrt((1 - dependence**2) / (early.size + late.size)) / 2
    estimate = _error(early, late, min(larger, _MOST))
    if estimate is None:
        return Interval(away, None, None, n)
    error, degrees = estimate
    half = student_quantile(0.5 + CONFIDENCE / 2, degrees) * error
    return Interval(away, away - half, away + half, n)


def _error(before: Floats, after: Floats, dependence: float) -> tuple[float, float] | None:
    """Return the standard error of the difference of the means, with its degrees of freedom; None below 3 values."""
    n = before.size + after.size
    if n < 3:
        return None
    squares = sum(float(((part - part.mean()) ** 2).sum()) for part in (before, after))
    more, less = _inflation(before.size, dependence), _inflation(after.size, dependence)
    # Deviations from a level's own mean are too small as well: their squares sum to n - more - less variances.
    variance = squares / max(n - more - less, 0.1 * n)
    error = math.sqrt(variance * (more / before.size + less / after.size))
    return error, max((n - 2) * (1 - dependence) / (1 + dependence), 1.0)


def _inflation(n: int, dependence: float) -> float:
    """Return the ratio between the variances of a mean of n values and of independent ones."""
    lags = np.arange(1, n)
    return 1 + 2 * float(((1 - lags / n) * dependence**lags).sum())
