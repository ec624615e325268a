"""Statistics of paired comparisons: arrays in, intervals out. Pure.

Runs are compared within blocks: each block holds one run of every arm in random order, so slow drift of the machine
cancels in the difference of two runs of one block (randomised complete block design; Montgomery, Design and Analysis
of Experiments, ch. 4). Ratios are analysed as differences of logarithms, which makes "twice" and "half" symmetrical.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
POWER = 0.80
_LARGEST = 709.0  # the largest logarithm of a float


@dataclass(frozen=True)
class Interval:
    """A point estimate with its two-sided confidence interval; ``low`` and ``high`` are None where n < 2."""

    estimate: float
    low: float | None
    high: float | None
    n: int


def student_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t. scipy is imported on use: it costs more than the rest of the kit to load."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Student's t interval of the mean (Student 1908). Exact for normal data at any n >= 2."""
    n = len(values)
    if n == 0:
        raise ValueError("no values")
    mean = math.fsum(values) / n
    if n == 1:
        return Interval(mean, None, None, 1)
    half = student_quantile(0.5 + confidence / 2, n - 1) * standard_error(values)
    return Interval(mean, mean - half, mean + half, n)


def standard_error(values: Sequence[float]) -> float:
    n = len(values)
    mean = math.fsum(values) / n
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)


def paired_ratio(pairs: Sequence[tuple[float, float]], confidence: float = CONFIDENCE) -> Interval:
    """Geometric mean of arm / baseline over blocks, from pairs (arm, baseline) that are all positive."""
    logs = mean_interval([math.log(arm / baseline) for arm, baseline in pairs], confidence)
    low = None if logs.low is None else _exp(logs.low)
    high = None if logs.high is None else _exp(logs.high)
    return Interval(math.exp(logs.estimate), low, high, logs.n)


def paired_difference(pairs: Sequence[tuple[float, float]], confidence: float = CONFIDENCE) -> Interval:
    """Mean of arm - baseline over blocks, from pairs (arm, baseline)."""
    return mean_interval([arm - baseline for arm, baseline in pairs], confidence)


def detectable_ratio(pairs: Sequence[tuple[float, float]], power: float = POWER) -> float | None:
    """The smallest ratio above 1 that these blocks would have shown with the given power, None where n < 2.

    (t[1-alpha/2] + t[power]) * SE of the mean log ratio (Bloom 1995, "Minimum Detectable Effects").
    """
    n = len(pairs)
    if n < 2:
        return None
    error = standard_error([math.log(arm / baseline) for arm, baseline in pairs])
    factor = student_quantile(0.5 + CONFIDENCE / 2, n - 1) + student_quantile(power, n - 1)
    return _exp(factor * error)


def _exp(value: float) -> float:
    """With two noisy runs the t quantile of 12.7 can carry a bound past the largest float; JSON knows no infinity."""
    return math.exp(min(value, _LARGEST))
