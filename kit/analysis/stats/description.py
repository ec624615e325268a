"""Description of numbers: mean, quartiles, distant values. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles, stdev


@dataclass(frozen=True)
class Description:
    """A distribution of values."""

    values: tuple[float, ...]
    mean: float
    deviation: float
    median: float
    quartiles: tuple[float, float]  # first and third
    #: The least and the most value within 1.5 interquartile ranges of the quartiles.
    near: tuple[float, float]
    outside_near: int  # how many values lie beyond these
    outside_deviation: int  # how many values lie beyond a standard deviation

    @property
    def least(self) -> float:
        return min(self.values)

    @property
    def most(self) -> float:
        return max(self.values)

    @property
    def total(self) -> float:
        return sum(self.values)

    @property
    def interquartile_range(self) -> float:
        return self.quartiles[1] - self.quartiles[0]

    @property
    def per_second(self) -> float:
        """Return how often per second something that takes the mean can be done; 0 if the mean is 0."""
        return 1 / self.mean if self.mean else 0.0


def describe(values: Sequence[float]) -> Description:
    """Return the description of one value or more."""
    alone = len(values) == 1
    first, _, third = [values[0]] * 3 if alone else quantiles(values, n=4, method="inclusive")
    mean, deviation = fmean(values), 0.0 if alone else stdev(values)
    low, high = first - 1.5 * (third - first), third + 1.5 * (third - first)
    return Description(
        tuple(values), mean, deviation, median(values), (first, third),
        (
            min((value for value in values if value >= low), default=min(values)),
            max((value for value in values if value <= high), default=max(values)),
        ),
        sum(not low <= value <= high for value in values), sum(abs(value - mean) > deviation for value in values),
    )  # fmt: skip
