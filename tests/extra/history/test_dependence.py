"""Nights that depend on each other, of known dependence."""

import numpy as np
import pytest

from kit.analysis.stats import estimators
from kit.analysis.stats.estimators import Floats
from kit.extra.history.analysis.dependence import USUAL, find_dependence, find_shift, keep_points


def nights(rng: np.random.Generator, count: int, dependence: float) -> Floats:
    values = rng.normal(0, 1, count)
    for night in range(1, count):
        values[night] = dependence * values[night - 1] + (1 - dependence**2) ** 0.5 * values[night]
    return values


@pytest.mark.parametrize("dependence", [0.0, 0.3, 0.6])
def test_dependence_is_found_in_a_long_series_also_across_levels(dependence: float) -> None:
    rng = np.random.default_rng(1)
    found = []
    for _ in range(50):
        values = nights(rng, 400, dependence)
        values[200:] += 5
        found.append(find_dependence(list(values), [200]))
    assert np.mean(found) == pytest.approx(dependence, abs=0.05)


def test_a_short_series_says_what_is_usual() -> None:
    assert find_dependence([1.0, 2.0, 1.5], []) == USUAL
    assert find_dependence([1.0] * 30, []) == USUAL
    rng = np.random.default_rng(2)
    assert np.mean([find_dependence(list(nights(rng, 8, 0.0)), []) for _ in range(200)]) > 0.15


def test_a_step_stays_where_it_is_clear_and_goes_where_dependence_explains_it() -> None:
    rng = np.random.default_rng(3)
    independent, dependent = nights(rng, 60, 0.0), nights(rng, 60, 0.7)
    independent[30:] += 1.6
    dependent[30:] += 1.6
    assert list(keep_points(list(independent), [30])) == [30]
    assert keep_points(list(dependent), [30]) == {}


def test_without_the_least_certain_its_neighbours_stand_on_more_nights() -> None:
    rng = np.random.default_rng(4)
    values = nights(rng, 60, 0.0)
    values[40:] += 3
    assert list(keep_points(list(values), [20, 40])) == [40]


def test_a_series_without_noise() -> None:
    assert keep_points([1.0] * 10 + [2.0] * 10, [10]) == {10: 0.0}
    assert keep_points([1.0] * 10 + [1.0] * 10, [10]) == {}


@pytest.mark.parametrize("dependence", [0.0, 0.3, 0.6])
def test_the_interval_of_a_shift_holds_where_nights_depend_on_each_other(dependence: float) -> None:
    rng, held, welch, series = np.random.default_rng(5), 0, 0, 400
    for _ in range(series):
        values = nights(rng, 40, dependence)
        before, after = values[:20], values[20:] + 5
        found = find_shift(before.tolist(), after.tolist(), find_dependence(values.tolist(), [20]))
        held += not found.leaves_out(5.0)
        welch += not estimators.welch(estimators.robust_centre(before), estimators.robust_centre(after)).leaves_out(5.0)
    assert held / series > 0.91
    assert dependence < 0.5 or welch / series < 0.8


def test_a_shift_of_two_nights_has_no_interval() -> None:
    assert find_shift([1.0], [2.0], 0.3).low is None
    assert find_shift([1.0, 1.0], [2.0, 2.0], 0.3).low == 1.0
