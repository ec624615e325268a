import math

import numpy as np
import pytest

from kit.analysis.stats import estimators
from kit.analysis.stats.estimate import Interval


def test_mean_interval_of_a_published_example() -> None:
    # NIST/SEMATECH e-Handbook 1.3.5.2: mean 9.261460, s 0.02278881, n 195 gives (9.258242, 9.264679).
    half = estimators.student_quantile(0.975, 194) * 0.02278881 / math.sqrt(195)
    assert 9.261460 - half == pytest.approx(9.258242, abs=1e-6)
    assert 9.261460 + half == pytest.approx(9.264679, abs=1e-6)


def test_mean_interval_by_hand() -> None:
    found = estimators.mean_centre([1.0, 2.0, 3.0]).interval()
    # t(0.975, 2) = 4.302653, s = 1, standard error 1/sqrt(3)
    assert found.estimate == 2.0
    assert found.low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-5)
    assert found.high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-5)
    assert found.n == 3


def test_one_value_has_no_interval_and_none_is_an_error() -> None:
    assert estimators.mean_centre([5.0]).interval() == Interval(5.0, None, None, 1)
    with pytest.raises(ValueError, match="no values"):
        estimators.mean_centre([])


def test_one_run_far_off_does_not_carry_a_robust_interval_away() -> None:
    steady = [0.01, 0.012, 0.009, 0.011, 0.01, 0.008, 0.013, 0.01, 0.009, 0.011, 0.012]
    clean = estimators.robust_centre(steady).interval()
    hit = estimators.robust_centre([*steady, 0.8]).interval()
    plain = estimators.mean_centre([*steady, 0.8]).interval()
    assert clean.low is not None and hit.low is not None and hit.high is not None and plain.high is not None
    assert hit.estimate == pytest.approx(clean.estimate, abs=0.001)
    assert hit.high - hit.low < (plain.high - plain.estimate) / 10


def test_trimmed_mean_by_hand() -> None:
    # 1 … 10: a tenth cut at either end keeps 2 … 9; Winsorised 2 2 3 4 5 6 7 8 9 9 has squares of 66.5
    found = estimators.robust_centre(range(1, 11))
    assert found.estimate == 5.5
    assert found.error == pytest.approx(math.sqrt(66.5 / (8 * 7)))
    assert (found.degrees, found.n) == (7, 10)


def test_below_ten_values_the_robust_centre_is_the_mean() -> None:
    assert estimators.robust_centre([1.0, 2.0, 9.0]) == estimators.mean_centre([1.0, 2.0, 9.0])


def test_family_confidence() -> None:
    assert estimators.family_confidence(1) == pytest.approx(0.95)
    assert estimators.family_confidence(5) == pytest.approx(0.99)


def noisy_rounds(slope: float) -> tuple[estimators.Floats, estimators.Floats]:
    rng = np.random.default_rng(3)
    x = rng.normal(0, 0.05, (8, 4))
    y = np.arange(4) + rng.normal(0, 0.2, (8, 1)) + slope * x + rng.normal(0, 0.01, (8, 4))
    return estimators.residuals(y), estimators.residuals(x)


def test_a_covariate_is_used_where_it_explains_noise_and_only_there() -> None:
    found = estimators.find_covariate(*noisy_rounds(1.0))
    assert found is not None
    assert found.slope == pytest.approx(1.0, abs=4 * found.slope_error)
    assert found.variance_left < 0.2
    assert estimators.find_covariate(*noisy_rounds(0.0)) is None
    y, x = noisy_rounds(1.0)
    assert estimators.find_covariate(y[:3], x[:3]) is None  # too few degrees of freedom
    assert estimators.find_covariate(y, np.zeros_like(x)) is None


def test_adjusting_takes_the_slope_out_and_its_error_in() -> None:
    covariate = estimators.Covariate(2.0, 0.3, 0.5, 8)
    away = np.array([0.1, 0.2, 0.0, 0.1])
    found = covariate.centre(0.5 + 2 * away + np.array([0.01, -0.01, 0.02, -0.02]), away)
    assert found.estimate == pytest.approx(0.5)
    assert found.error == pytest.approx(0.02 / math.sqrt(3) * math.sqrt(10 / 16) * math.sqrt(9 / 8), rel=0.2)
    wider = covariate.widen(estimators.Centre(0.1, 0.04, 7, 8), np.array([0.0, 0.2]))
    assert wider.error == pytest.approx(0.05)
    assert wider.degrees == 7  # the slope is all arms': none loses a degree by it


def test_below_five_rounds_no_covariate_is_used() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(0, 0.05, (4, 8))
    y = estimators.residuals(x + rng.normal(0, 0.001, x.shape))
    assert estimators.find_covariate(y, estimators.residuals(x)) is None
    rng = np.random.default_rng(3)
    x = rng.normal(0, 0.05, (5, 8))
    assert (
        estimators.find_covariate(estimators.residuals(x + rng.normal(0, 0.001, x.shape)), estimators.residuals(x))
        is not None
    )


def test_trend_of_few_values_is_counted_out() -> None:
    # Of the 120 orders of 5 values one rises and one falls throughout.
    rising = estimators.find_trend([1.0, 2.0, 3.0, 4.0, 5.0])
    assert rising is not None
    assert rising.p == pytest.approx(2 / 120)
    assert rising.slope == 1.0
    assert estimators.find_trend([1.0, 2.0, 3.0]) is None
    level = estimators.find_trend([1.0, 3.0, 2.0, 1.5, 2.5, 1.2])
    assert level is not None and level.p > 0.2


def test_trend_of_many_values_agrees_with_scipy() -> None:
    from scipy.stats import kendalltau

    rng = np.random.default_rng(5)
    values = rng.normal(0, 1, 60) + np.arange(60) / 40
    found = estimators.find_trend(values)
    assert found is not None
    assert found.p == pytest.approx(kendalltau(np.arange(60), values, method="asymptotic").pvalue, rel=0.1)
    exact = estimators.find_trend(values[:20])
    assert exact is not None
    assert exact.p == pytest.approx(kendalltau(np.arange(20), values[:20], method="exact").pvalue, rel=1e-6)


def test_welch_is_what_scipy_computes() -> None:
    from scipy.stats import ttest_ind

    dice = np.random.default_rng(3)
    one, two = dice.normal(0.0, 0.02, 5), dice.normal(0.1, 0.05, 8)
    found = estimators.welch_ratio(one, two)
    theirs = ttest_ind(two, one, equal_var=False).confidence_interval(0.95)
    assert found is not None and found.low is not None and found.high is not None
    assert np.log([found.low, found.high]) == pytest.approx([theirs.low, theirs.high])
    assert estimators.welch_ratio(one[:0], two) is None
    single = estimators.welch_ratio(one[:1], two)
    assert single is not None and single.low is None
