"""Sequential t intervals: the likelihood ratio that they rest on, and how often they err over all looks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kit.analysis.stats.estimators import mean_centre, student_quantile
from kit.analysis.stats.sequential import EFFECT, log_evidence, sequential_interval, sequential_quantile


@pytest.mark.parametrize(("n", "t"), [(2, 3.0), (3, -1.0), (5, 8.0), (10, 0.0), (30, 4.0)])
def test_the_evidence_is_the_likelihood_ratio_of_t_with_the_prior_mixed_in(n: int, t: float) -> None:
    stats, integrate = pytest.importorskip("scipy.stats"), pytest.importorskip("scipy.integrate")

    def mixed(effect: float) -> float:
        prior = 2 / EFFECT * float(stats.norm.pdf(effect / EFFECT))
        return prior * float(stats.nct.pdf(t, n - 1, effect * math.sqrt(n)))

    above, _ = integrate.quad(mixed, 0, 8 * EFFECT, limit=400, points=[max(t, 0.1) / math.sqrt(n)])
    assert log_evidence(n, t) == pytest.approx(math.log(above / stats.t.pdf(t, n - 1)), abs=2e-3)


def test_the_evidence_rises_with_t() -> None:
    for n in (2, 4, 40):
        found = [log_evidence(n, t) for t in np.linspace(-20, 40, 121)]
        assert found == sorted(found)


def test_few_values_have_no_interval_and_more_have_a_wider_one_than_student_s() -> None:
    assert math.isinf(sequential_quantile(1, 0.05)) and math.isinf(sequential_quantile(2, 0.001))
    for n in (5, 20, 100):
        assert sequential_quantile(n, 0.01) > student_quantile(0.99, n - 1)
        assert log_evidence(n, sequential_quantile(n, 0.01)) == pytest.approx(math.log(100), abs=1e-6)
    centre = mean_centre([1.0, 2.0])
    assert sequential_interval(centre, 1e-4).low is None


def test_a_lasting_error_widens_the_interval() -> None:
    centre = mean_centre(np.linspace(-1, 1, 12))
    plain, wider = sequential_interval(centre, 0.05), sequential_interval(centre, 0.05, 0.5)
    assert plain.low and wider.low and wider.low < plain.low
    exact = sequential_interval(mean_centre(np.ones(12)), 0.05, 0.5)
    assert exact.high == pytest.approx(1 + 1.96 * 0.5, abs=1e-3)


@pytest.mark.parametrize("error", [0.05, 0.2])
def test_each_end_errs_as_seldom_as_it_says_over_all_looks(error: float) -> None:
    sessions, most = 1500, 40
    values = np.random.default_rng(3).standard_normal((sessions, most))
    rejected = np.zeros(sessions, bool)
    for n in range(2, most + 1):
        t = values[:, :n].mean(1) / values[:, :n].std(1, ddof=1) * math.sqrt(n)
        rejected |= t > sequential_quantile(n, error)
    assert rejected.mean() <= error + 3 * (error * (1 - error) / sessions) ** 0.5
    assert rejected.mean() > error / 8  # and not much more seldom
