"""Scales: from figures to positions in a picture, and the ticks with labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_FARTHEST = 300.0  # from 1, as a logarithm: two noisy runs have intervals that end beyond the floats


@dataclass(frozen=True)
class Scale:
    """A map from values, ``low`` to ``high``, to pixels, ``left`` to ``right``."""

    low: float
    high: float
    left: float
    right: float
    log: bool = False  # logarithmic

    def at(self, value: float) -> float:
        low, high = self._of(self.low), self._of(self.high)
        return self.left + (self._of(value) - low) / ((high - low) or 1.0) * (self.right - self.left)

    def within(self, value: float) -> bool:
        return self.low <= value <= self.high

    def clamp(self, value: float) -> float:
        return min(max(value, self.low), self.high)

    def _of(self, value: float) -> float:
        return math.log(value) if self.log else value


def linear_ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Return round numbers between the two."""
    span = high - low
    if span <= 0:
        return [low]
    step = 10 ** math.floor(math.log10(span / about))
    step *= next((factor for factor in (1, 2, 5, 10) if span / (step * factor) <= about), 10)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def ratio_ticks(low: float, high: float) -> list[float]:
    """Return ticks of ratios on a logarithmic scale: round percentages for a short range, else powers of 2 or 10."""
    if high / low < 6:
        return [1 + tick for tick in linear_ticks(low - 1, high - 1) if 1 + tick > 0]
    base = 2 if high / low < 200 else 10
    return [float(base) ** k for k in range(math.ceil(math.log(low, base)), math.floor(math.log(high, base)) + 1)]


def seconds_ticks(low: float, high: float, log: bool) -> list[float]:
    if not log:
        return linear_ticks(low, high)
    ticks = [
        factor * 10.0**k
        for k in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for factor in (1, 2, 5)
    ]
    return [tick for tick in ticks if low <= tick <= high]


def spread(values: Sequence[float]) -> float:
    """Return the largest distance of ratios from 1, as a logarithm: one far slower arm must not flatten all others."""
    ends = sorted(abs(math.log(value)) for value in values if value > 0)
    usual = ends[len(ends) // 2] if ends else 0.0
    return min(max(ends, default=0.01), max(4 * usual, 0.01), _FARTHEST) or 0.01
