import math

import pytest

from kit import stats


def test_mean_interval_of_a_published_example() -> None:
    # NIST/SEMATECH e-Handbook 1.3.5.2: mean 9.261460, s 0.02278881, n 195 gives (9.258242, 9.264679).
    half = stats.student_quantile(0.975, 194) * 0.02278881 / math.sqrt(195)
    assert 9.261460 - half == pytest.approx(9.258242, abs=1e-6)
    assert 9.261460 + half == pytest.approx(9.264679, abs=1e-6)


def test_mean_interval_by_hand() -> None:
    found = stats.mean_interval([1.0, 2.0, 3.0])
    # t(0.975, 2) = 4.302653, s = 1, standard error 1/sqrt(3)
    assert found.estimate == 2.0
    assert found.low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-5)
    assert found.high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-5)
    assert found.n == 3


def test_one_value_has_no_interval_and_none_is_an_error() -> None:
    assert stats.mean_interval([5.0]) == stats.Interval(5.0, None, None, 1)
    with pytest.raises(ValueError, match="no values"):
        stats.mean_interval([])


def test_paired_ratio_ignores_what_a_block_shares() -> None:
    steady = stats.paired_ratio([(1.1, 1.0), (1.2, 1.1), (1.3, 1.2)])
    drifting = stats.paired_ratio([(1.1, 1.0), (12.0, 11.0), (130.0, 120.0)])
    assert steady.estimate == pytest.approx(drifting.estimate)
    assert steady.low == pytest.approx(drifting.low)


def test_paired_ratio_is_symmetrical() -> None:
    pairs = [(2.0, 1.0), (1.9, 1.1), (2.2, 1.0)]
    there, back = stats.paired_ratio(pairs), stats.paired_ratio([(b, a) for a, b in pairs])
    assert there.low is not None and back.high is not None
    assert there.estimate == pytest.approx(1 / back.estimate)
    assert there.low == pytest.approx(1 / back.high)


def test_the_published_figures_of_moby_2891() -> None:
    bare, mapper, aufs = 29 * 60 + 59.190, 32 * 60 + 21.074, 37 * 60 + 14.612
    assert round(stats.paired_ratio([(mapper, bare)]).estimate, 3) == 1.079
    assert round(stats.paired_ratio([(aufs, bare)]).estimate, 3) == 1.242
    assert stats.paired_ratio([(aufs, bare)]).low is None
    assert stats.detectable_ratio([(aufs, bare)]) is None


def test_detectable_ratio_shrinks_with_rounds() -> None:
    few = [(1.0, 1.02), (1.03, 1.0), (1.0, 1.0)]
    some, more = stats.detectable_ratio(few), stats.detectable_ratio(few * 4)
    assert some is not None and more is not None
    assert 1 < more < some


def test_two_wildly_different_runs_do_not_overflow() -> None:
    found = stats.paired_ratio([(1e-99, 1.0), (1e99, 1.0)])
    assert found.high is not None and 1e300 < found.high < math.inf
    assert found.low == 0.0
