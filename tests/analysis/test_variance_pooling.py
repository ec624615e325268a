"""The noise that arms share, against what is known: tables, exact cases, and simulated sessions of fixed seeds."""

import math
from dataclasses import replace

import numpy as np
import pytest

from kit.analysis.stats import variance_pooling
from kit.analysis.stats.estimators import Centre, Floats, mean_centre, own_degrees, robust_centre, student_quantile
from kit.analysis.stats.variance_pooling import Contrast, PooledEstimate, Values, rounds_needed, share


def session(rng: np.random.Generator, rounds: int, spreads: list[float]) -> list[Contrast]:
    """Arms that all take as long as the first, their baseline."""
    return arms_of(rng.normal(0, spreads, (rounds, len(spreads))))


def arms_of(logs: Floats) -> list[Contrast]:
    """Every arm with the first. ``logs``: rounds x arms."""
    rounds, base = np.arange(len(logs)), logs[:, 0]
    return [
        Contrast((arm, 0), robust_centre(one - base), alike=True, values=Values(rounds, one, base))
        for arm, one in enumerate(logs.T)
        if arm
    ]


def holds(found: list[PooledEstimate]) -> tuple[float, bool]:
    """Share of the intervals that hold 0, and whether all do at once."""
    alone = [not item.interval().leaves_out(0.0) for item in found]
    return float(np.mean(alone)), not any(item.interval_together().leaves_out(0.0) for item in found)


def widths(found: list[PooledEstimate]) -> float:
    return float(np.mean([(item.interval().high or 0) - item.estimate for item in found]))


@pytest.mark.parametrize("rounds", [2, 3, 5, 10])
def test_intervals_hold_alone_and_together_and_are_narrower_than_alone(rounds: int) -> None:
    rng = np.random.default_rng(rounds)
    sessions = [session(rng, rounds, [0.03] * 8) for _ in range(800)]
    found = [share(item, 7) for item in sessions]
    alone, together = zip(*(holds(item) for item in found), strict=True)
    assert 0.935 < np.mean(alone) < 0.995
    assert 0.925 < np.mean(together) < 0.995
    own = np.mean([(c.centre.interval().high or 0) - c.centre.estimate for item in sessions for c in item])
    assert np.mean([widths(item) for item in found]) < own


def test_an_arm_that_is_noisier_than_the_rest_keeps_most_of_its_coverage() -> None:
    rng = np.random.default_rng(1)
    found = [share(session(rng, 4, [0.03] * 7 + [0.08]), 7)[-1] for _ in range(1000)]
    assert np.mean([not item.interval().leaves_out(0.0) for item in found]) > 0.88


def test_what_is_said_to_be_detectable_is_found_in_four_of_five() -> None:
    rng = np.random.default_rng(2)
    found = [share(session(rng, 3, [0.03] * 8), 7)[0] for _ in range(2000)]
    said = float(np.median([item.detectable() or 0 for item in found]))
    seen = [(item.interval_together().low or 0) + said > 0 for item in found]
    assert 0.76 < np.mean(seen) < 0.84


def test_a_comparison_that_is_alone_or_unlike_has_students_interval() -> None:
    centre = robust_centre([0.1, 0.12, 0.11])
    lone = share([Contrast(("a", "b"), centre, alike=True)], 1)[0]
    assert lone.interval().low == pytest.approx(centre.interval().low)
    assert lone.degrees == 2
    assert lone.interval_together().low == pytest.approx(lone.interval().low)
    other = Contrast(("c", "b"), robust_centre([0.9, 0.91, 0.93, 0.9, 0.92]), alike=False)
    far = share([*session(np.random.default_rng(3), 5, [0.03] * 4), other], 4)[-1]
    assert far.interval().high == pytest.approx(other.centre.interval().high)
    bonferroni = student_quantile(1 - 0.05 / 4 / 2, 4) * (other.centre.error or 0)
    assert (far.interval_together().high or 0) - far.estimate == pytest.approx(bonferroni)


def test_one_run_has_no_interval_and_takes_none_from_the_others() -> None:
    one = Contrast(("x", 0), robust_centre([0.5]), alike=True)
    found = share([one, *session(np.random.default_rng(4), 3, [0.03] * 3)], 3)
    assert found[0].interval().low is None
    assert found[0].detectable() is None
    assert found[1].interval().low is not None


def test_with_many_rounds_and_one_baseline_the_quantile_is_dunnetts() -> None:
    # Dunnett's two-sided 5 % point for 6 comparisons with one control: 2.60 with unlimited degrees (Dunnett 1964).
    found = share(session(np.random.default_rng(5), 4000, [0.03] * 7), 6)
    half = (found[0].interval_together().high or 0) - found[0].estimate
    error = 0.03 * math.sqrt(2 * 1.06 / 4000)  # a mean without a tenth at either end has 1.06 times the variance
    assert half / error == pytest.approx(2.60, rel=0.03)


def test_a_control_tells_of_the_noise_and_is_not_counted() -> None:
    arms = session(np.random.default_rng(6), 5, [0.03] * 4)
    with_control = share([*arms[:2], replace(arms[2], counted=False)], 2)
    assert with_control[-1].interval_together() == with_control[-1].interval()
    assert with_control[0].degrees > 4


def test_controls_alone_have_their_own_interval() -> None:
    arm = session(np.random.default_rng(6), 5, [0.03] * 4)[2]
    (alone,) = share([Contrast((3, 0), arm.centre, True, counted=False)], 1)
    assert alone.interval_together().low == pytest.approx(alone.interval().low)
    assert alone.interval().low == pytest.approx(arm.centre.interval().low)


def test_two_seeds_are_one_answer(own_quantiles: None) -> None:
    arms = session(np.random.default_rng(7), 4, [0.03] * 5)
    first = share(arms, 4)
    variance_pooling._find_quantiles.cache_clear()
    variance_pooling._simulate.cache_clear()
    assert share(arms, 4) == first


def median_rounds(reach: float, rounds: int) -> float:
    rng = np.random.default_rng(8)
    said = []
    for _ in range(300):
        for item in share(session(rng, rounds, [0.03] * 8), 7):
            said.append(rounds_needed(item.spread or 0, item.degrees - own_degrees(rounds), reach) or 0)
    return float(np.median(said))


def test_rounds_needed_are_those_that_are() -> None:
    def reach(rounds: int) -> Floats:
        rng = np.random.default_rng(9)
        return np.array([widths(share(session(rng, rounds, [0.03] * 8), 7)) for _ in range(100)])

    said = round(median_rounds(0.02, 3))
    assert 15 < said < 30
    assert np.mean(reach(said)) == pytest.approx(0.02, rel=0.12)


def test_rounds_needed_by_hand() -> None:
    # t(0.975, 8) * 0.03 / 3 = 0.0231, t(0.975, 7) * 0.03 / sqrt(8) = 0.0251
    assert rounds_needed(0.03, 0, 0.024) == 9
    assert rounds_needed(0.03, 0, 1e-9) is None


def test_shared_keeps_what_a_centre_says() -> None:
    found = share(
        [Contrast(("a", "b"), Centre(0.3, 0.01, 4, 5), True), Contrast(("c", "b"), Centre(0.1, 0.01, 4, 5), True)], 2
    )
    assert [item.estimate for item in found] == [0.3, 0.1]
    assert [item.n for item in found] == [5, 5]


@pytest.mark.parametrize("rounds", [3, 5])
def test_an_arm_far_off_lends_and_borrows_noise_like_any_other(rounds: int) -> None:
    rng = np.random.default_rng(10)
    held, half = [], []
    for _ in range(500):
        far = share(arms_of(rng.normal([0] * 7 + [0.875], 0.03, (rounds, 8))), 7)[-1]
        held.append(not far.interval().leaves_out(0.875))
        half.append((far.interval_together().high or 0) - far.estimate)
    assert 0.93 < np.mean(held) < 0.985
    assert np.mean(half) < 1.5 * 2.6 * 0.03 * math.sqrt(2 / rounds)


@pytest.mark.parametrize("rounds", [5, 10])
def test_simultaneous_intervals_are_near_those_of_known_noise(rounds: int) -> None:
    rng = np.random.default_rng(11)
    half = [
        np.mean(
            [
                (item.interval_together().high or 0) - item.estimate
                for item in share(session(rng, rounds, [0.03] * 9), 8)
            ]
        )
        for _ in range(300)
    ]
    assert np.mean(half) < 1.22 * 2.7 * 0.03 * math.sqrt(2 / rounds)


@pytest.mark.parametrize("noisy", [0, 8])
@pytest.mark.parametrize("rounds", [3, 5])
def test_families_hold_where_one_arm_is_five_times_as_noisy(noisy: int, rounds: int) -> None:
    rng = np.random.default_rng(12)
    spreads = [0.15 if arm == noisy else 0.03 for arm in range(9)]
    found = [holds(share(session(rng, rounds, spreads), 8)) for _ in range(600)]
    assert np.mean([together for _, together in found]) > 0.91


@pytest.mark.parametrize("noisy", [0, 8])
@pytest.mark.parametrize("rounds", [3, 5])
def test_individual_intervals_hold_beside_and_of_a_noisy_arm(noisy: int, rounds: int) -> None:
    rng = np.random.default_rng(15)
    spreads = [0.15 if arm == noisy else 0.03 for arm in range(9)]
    found = [share(session(rng, rounds, spreads), 8)[-1] for _ in range(1000)]
    assert np.mean([not item.interval().leaves_out(0.0) for item in found]) > 0.90  # 86 to 88 % before


def test_families_of_one_shape_have_the_same_quantiles_whatever_their_arms_are_called(own_quantiles: None) -> None:
    logs = np.random.default_rng(16).normal(0, 0.03, (4, 5))
    rounds = np.arange(4)

    def against(hub: int) -> tuple[float, ...]:
        pairs = [(one, other) for one in range(5) for other in range(one)]
        contrasts = [
            Contrast((one, other), robust_centre(logs[:, one] - logs[:, other]), True, hub in (one, other),
                     Values(rounds, logs[:, one], logs[:, other]))
            for one, other in pairs
        ]  # fmt: skip
        return tuple(
            round(item.together * (item.error or 0) / (item.bounded * (item.error or 0)), 6)
            for item, one in zip(share(contrasts, 4), contrasts, strict=True)
            if one.counted
        )

    variance_pooling._simulate.cache_clear()
    variance_pooling._find_quantiles.cache_clear()
    against(0), against(3), against(4)
    assert variance_pooling._find_quantiles.cache_info().misses == 1


def test_without_values_far_comparisons_borrow_noise_in_logarithms() -> None:
    rng = np.random.default_rng(17)
    held, own, half = [], [], []
    for _ in range(600):
        seconds = np.array([10.0] * 5 + [24.0]) * np.exp(rng.normal(0, 0.03, (5, 6)))
        found = share(
            [
                Contrast((arm, 0), mean_centre(seconds[:, arm] - seconds[:, 0]), True,
                         scale=(float(seconds[:, arm].mean()), float(seconds[:, 0].mean())))
                for arm in range(1, 6)
            ],
            5,
        )  # fmt: skip
        interval = found[-1].interval()
        held.append(not interval.leaves_out(14.0))
        half.append((interval.high or 0) - interval.estimate)
        alone = mean_centre(seconds[:, 5] - seconds[:, 0]).interval()
        own.append((alone.high or 0) - alone.estimate)
    assert 0.93 < np.mean(held) < 0.995
    assert np.mean(half) < 0.97 * np.mean(own)


def test_arms_may_lack_rounds_and_noise_may_be_none() -> None:
    rng = np.random.default_rng(13)
    long = arms_of(rng.normal(0, 0.03, (12, 4)))
    values = long[0].values
    assert values
    early = Values(values.rounds[:3], values.arm[:3], values.base[:3])
    short = Contrast((9, 0), robust_centre(early.arm - early.base), True, values=early)
    found = share([*long, short], 4)
    assert all(item.interval().high is not None and item.degrees >= own_degrees(item.n) for item in found)
    assert found[-1].error and found[0].error and found[-1].error > found[0].error
    still = share(arms_of(np.zeros((5, 4))), 3)
    assert [item.interval().high for item in still] == pytest.approx([0.0] * 3)
    assert all(item.together >= student_quantile(0.975, item.degrees) for item in still)


@pytest.mark.parametrize("widened", [1, 20])
def test_far_tails_are_those_of_bonferroni_at_most(widened: int) -> None:
    found = share(arms_of(np.random.default_rng(14).normal(0, 0.03, (40, 7))), 6 * widened)[0]
    half = (found.interval_together().high or 0) - found.estimate
    assert half / (found.error or 1) < 1.06 * student_quantile(1 - 0.05 / 6 / widened / 2, found.degrees)
