"""E-divisive with t tests: where a series of figures moves to another level. Pure.

A window of the series is split where the energy distance of the two sides is largest (Matteson and James 2014, "A
Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data"). Its parts are split again as long as a
t test finds the split significant. Fleming et al. 2023, "Hunter: Using Change Point Detection to Hunt for Performance
Regressions" use this test instead of permutations, the windows, and the merging of similar neighbouring levels. A test
compares the places with those of apache-otava, which these authors maintain. Of equally clear splits the first is
taken; in otava, rounding decides. The kit does not use otava, which needs clients of three services and pins numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from kit.analysis.stats.estimators import Floats

#: The window, in values, in which a change is sought; each window starts half a window after the last.
WINDOW = 50
#: In the search a split's p may be larger by this factor: its neighbours may yet be merged.
_RELAXED = 10
#: Significant digits of an energy distance: rounding must not make equal ones differ.
_DIGITS = 12


@np.errstate(over="ignore", invalid="ignore")  # figures without bound show nothing
def find_points(values: Sequence[float], p: float) -> list[int]:
    """Return the indices at which new levels begin, in order. Each has a t test below ``p`` (at most 0.05) against the
    level before."""
    data = np.asarray(values, float)
    points: set[int] = set()
    start = 0
    while start < data.size:
        splits = _split(data[start : start + WINDOW], _RELAXED * p)
        points.update(start + point for point in splits)
        start += max([WINDOW // 2, *splits[-1:]])
    return _merge(data, sorted(points), p)


def _split(data: Floats, p: float) -> list[int]:
    """Split the part with the clearest split, until that split is not significant."""
    sums = np.zeros((data.size + 1, data.size + 1))
    sums[1:, 1:] = np.abs(data[:, None] - data).cumsum(axis=0).cumsum(axis=1)
    points: list[int] = []
    while True:
        parts = [part for part in pairwise([0, *points, data.size]) if part[1] - part[0] > 1]
        if not parts:
            return points
        _, start, point, end = max((_best_split(sums, *part) for part in parts), key=lambda split: split[0])
        if not _is_below(p, data[start:point], data[point:end]):
            return points
        points = sorted([*points, point])


def _best_split(sums: Floats, start: int, end: int) -> tuple[float, int, int, int]:
    """Return the largest energy distance of values start … point against point … stop, with start, that point and end.
    All points and stops up to ``end`` are tried. ``sums``: distances of all values before i and before j."""
    point, stop = np.arange(start + 1, end)[:, None], np.arange(start + 2, end + 1)
    usable = stop > point
    n, m = point - start, np.where(usable, stop - point, 1)
    before = sums[point, point] - 2 * sums[start, point] + sums[start, start]
    whole = sums[stop, stop] - 2 * sums[start, stop] + sums[start, start]
    after = sums[stop, stop] - 2 * sums[point, stop] + sums[point, point]
    between = whole - before - after
    # Every pair is in these sums twice. A side of one value has no distances within.
    distance = (between - m * before / np.maximum(n - 1, 1) - n * after / np.maximum(m - 1, 1)) / (n + m)
    distance = np.where(usable, np.round(distance / (sums[-1, -1] or 1.0), _DIGITS), -np.inf)
    row = int(distance.max(axis=1).argmax())
    return float(distance[row].max()), start, start + 1 + row, end


def _merge(data: Floats, points: list[int], p: float) -> list[int]:
    """Remove the points without a significant change between the levels beside them, the least certain first.

    After a removal, the two later points are tested again; the previous one is not, though its level has grown. otava
    does the same, and histories stay as they were. ``dependence`` tests all remaining points again."""

    def chance(i: int) -> float:
        start, point, stop = [0, *points, data.size][i : i + 3]
        return _chance(data[start:point], data[point:stop])

    chances = [chance(i) for i in range(len(points))]
    while points and max(chances) >= p:
        worst = chances.index(max(chances))
        points, chances = points[:worst] + points[worst + 1 :], chances[:worst] + chances[worst + 1 :]
        chances[worst : worst + 2] = [chance(i) for i in range(worst, len(points))[:2]]
    return points


def _chance(before: Floats, after: Floats) -> float:
    """Return the two-sided p of Student's t test; 1 for two values in all, for equal values and for infinite ones."""
    from scipy.special import stdtr

    size = _statistic(before, after)
    return 2 * float(stdtr(before.size + after.size - 2, -size)) if size else 1.0


def _is_below(p: float, before: Floats, after: Floats) -> bool:
    """Return whether the probability is below. Most splits are far from the limit. Student's tails are heavier than the
    normal distribution's, which decides these without scipy: scipy loads more slowly than a history."""
    return math.erfc(_statistic(before, after) / math.sqrt(2)) <= p and _chance(before, after) <= p


def _statistic(before: Floats, after: Floats) -> float:
    """Return the size of Student's t; 0 if unknown."""
    n, m = before.size, after.size
    away = abs(float(after.mean() - before.mean()))
    # Deviations are divided by n, as in otava, not n - 1. Short levels pass a little too easily, and
    # kit.extra.history.analysis.dependence judges them again.
    squares = (n - 1) * float(before.var()) + (m - 1) * float(after.var())
    if n + m < 3 or not away or not math.isfinite(away + squares):
        return 0.0
    if not squares:
        return math.inf
    return away / math.sqrt(squares / (n + m - 2) * (1 / n + 1 / m))
