"""E-divisive with t tests: levels whose places are known, and the same places as its reference finds."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import settings

from kit.analysis.stats.estimators import Floats
from kit.extra.history.analysis.changepoint import P
from kit.extra.history.analysis.divisive import WINDOW, _chance, _is_below, find_points

NOISE = 0.02
#: In the loop of seconds (profile quick) a quarter.
SERIES = 60 if settings().max_examples >= 100 else 15


def levels(sizes: list[int], steps: list[float], seed: int = 1, dependence: float = 0.0) -> Floats:
    """A series of ratios at levels that are so many standard deviations of its noise above the first."""
    values = np.random.default_rng(seed).normal(0, 1, sum(sizes))
    for i in range(1, values.size):
        values[i] = dependence * values[i - 1] + (1 - dependence**2) ** 0.5 * values[i]
    found: Floats = 1.05 + NOISE * (values + np.repeat(steps, sizes))
    return found


def theirs(values: Floats, p: float) -> list[int]:
    pytest.importorskip("otava", reason="apache-otava is not installed: it is not for Python 3.14 yet")
    from otava.analysis import compute_change_points

    # A list: of an array it would search the whole instead of each window.
    return [int(point.index) for point in compute_change_points(values.tolist(), window_len=WINDOW, max_pvalue=p)[0]]


@pytest.mark.parametrize(
    ("sizes", "steps"),
    [
        ([20, 20], [0, 8]),
        ([20, 20], [8, 0]),
        ([14, 12, 14], [0, 8, 16]),
        ([70, 65], [0, 8]),  # longer than a window
        ([30, 25, 40, 33, 60], [0, 8, 0, -8, 8]),
    ],
)
def test_levels_begin_where_they_were_made_to(sizes: list[int], steps: list[float]) -> None:
    assert find_points(list(levels(sizes, steps)), P) == list(np.cumsum(sizes)[:-1])


def test_a_level_without_noise_is_found_and_a_constant_series_has_none() -> None:
    assert find_points([1.0] * 5 + [1.1] * 5, P) == [5]
    for values in ([], [1.0], [1.0, 2.0], [1.0] * 120):
        assert find_points(values, P) == []


@pytest.mark.parametrize("p", [0.001, 0.05])
def test_what_is_refused_without_scipy_is_what_the_t_test_refuses(p: float) -> None:
    dice = np.random.default_rng(1)
    told = []
    for _ in range(2000):
        before, after = (dice.normal(shift, 1, dice.integers(1, 12)) for shift in (0, dice.choice([0, 1, 3])))
        told.append(_is_below(p, before, after))
        assert told[-1] == (_chance(before, after) <= p)
    assert 100 < sum(told) < 1500


def test_one_night_far_off_is_no_level() -> None:
    values = levels([40], [0])
    values[20] += 10 * NOISE
    assert find_points(list(values), P) == []


@pytest.mark.parametrize("dependence", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("p", [P, 0.01])
def test_its_places_are_those_of_apache_otava(dependence: float, p: float) -> None:
    """Over series such as benchmarks/proofs/nightly.py makes, short and long, with levels of all sizes at random
    places."""
    dice, several = np.random.default_rng(20261122), 0
    for seed in range(SERIES):
        sizes = [int(dice.integers(1, 45)) for _ in range(dice.integers(1, 6))]
        values = levels(sizes, list(dice.normal(0, 4, len(sizes))), seed, dependence)
        found = find_points(list(values), p)
        assert found == theirs(values, p), f"seed {seed}"
        several += len(found) > 1
    assert several > SERIES / 6


_FLAT = """
import random, sys
from kit.extra.history.analysis.divisive import find_points
dice = random.Random(1)
flat = [dice.gauss(1, 0.01) for _ in range(100)]
print(find_points(flat, 0.0001), "scipy" in sys.modules)
print(find_points([*flat, *(value + 0.1 for value in flat)], 0.0001), "scipy" in sys.modules)
"""


def test_a_history_without_a_change_loads_no_scipy() -> None:
    done = subprocess.run([sys.executable, "-c", _FLAT], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[] False", "[100] True"]
