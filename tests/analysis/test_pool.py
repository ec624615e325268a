"""The noise that arms share, against what is known: tables, exact cases, and simulated sessions of fixed seeds."""

import math

import numpy as np
import pytest

from kit.analysis import pool
from kit.analysis.pool import Contrast, Shared, rounds_needed, share
from kit.analysis.stats import Centre, Floats, robust_centre, student_quantile


def session(rng: np.random.Generator, blocks: int, spreads: list[float]) -> list[Contrast]:
    """Arms that all take as long as the first, their baseline."""
    values = rng.normal(0, spreads, (blocks, len(spreads)))
    return [
        Contrast((arm, 0), robust_centre(values[:, arm] - values[:, 0]), alike=True) for arm in range(1, len(spreads))
    ]


def holds(found: list[Shared]) -> tuple[float, bool]:
    """Share of the intervals that hold 0, and whether all do at once."""
    alone = [not item.interval().leaves_out(0.0) for item in found]
    return float(np.mean(alone)), not any(item.interval_together().leaves_out(0.0) for item in found)


def widths(found: list[Shared]) -> float:
    return float(np.mean([(item.interval().high or 0) - item.estimate for item in found]))


@pytest.mark.parametrize("blocks", [2, 3, 5, 10])
def test_intervals_hold_alone_and_together_and_are_narrower_than_alone(blocks: int) -> None:
    rng = np.random.default_rng(blocks)
    sessions = [session(rng, blocks, [0.03] * 8) for _ in range(800)]
    found = [share(item, 7) for item in sessions]
    alone, together = zip(*(holds(item) for item in found), strict=True)
    assert 0.935 < np.mean(alone) < 0.965
    assert 0.925 < np.mean(together) < 0.975
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


def test_with_many_blocks_and_one_baseline_the_quantile_is_dunnetts() -> None:
    # Dunnett's two-sided 5 % point for 6 comparisons with one control: 2.60 with unlimited degrees (Dunnett 1964).
    found = share(session(np.random.default_rng(5), 4000, [0.03] * 7), 6)
    half = (found[0].interval_together().high or 0) - found[0].estimate
    error = 0.03 * math.sqrt(2 * 1.06 / 4000)  # a mean without a tenth at either end has 1.06 times the variance
    assert half / error == pytest.approx(2.60, rel=0.03)


def test_a_control_tells_of_the_noise_and_is_not_counted() -> None:
    arms = session(np.random.default_rng(6), 5, [0.03] * 4)
    with_control = share([*arms[:2], Contrast((3, 0), arms[2].centre, True, counted=False)], 2)
    assert with_control[-1].interval_together() == with_control[-1].interval()
    assert with_control[0].degrees == 4 + pool.BORROWED


def test_controls_alone_have_their_own_interval() -> None:
    arm = session(np.random.default_rng(6), 5, [0.03] * 4)[2]
    (alone,) = share([Contrast((3, 0), arm.centre, True, counted=False)], 1)
    assert alone.interval_together() == alone.interval()
    assert alone.interval().low == pytest.approx(arm.centre.interval().low)


@pytest.mark.parametrize("probability", [0.0, 0.25, 0.5, 0.95, 1.0])
def test_quantiles_are_those_of_numpy(probability: float) -> None:
    for size in (1, 2, 7, 1000):
        values = np.random.default_rng(size).normal(size=(2, size)).T
        assert pool._quantile(values, probability) == np.quantile(values, probability)


def test_two_seeds_are_one_answer() -> None:
    arms = session(np.random.default_rng(7), 4, [0.03] * 5)
    first = share(arms, 4)
    pool._find_factors.cache_clear()
    pool._simulate.cache_clear()
    assert share(arms, 4) == first


def median_rounds(reach: float, blocks: int) -> float:
    rng = np.random.default_rng(8)
    said = []
    for _ in range(300):
        for item in share(session(rng, blocks, [0.03] * 8), 7):
            said.append(rounds_needed(item.spread or 0, pool.BORROWED, reach) or 0)
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


def test_an_arm_far_off_is_told_with_three_rounds_and_its_noise_is_its_own_later() -> None:
    rng = np.random.default_rng(10)
    for blocks, borrowed in ((3, pool.BORROWED), (5, 0)):
        held = []
        for _ in range(500):
            values = rng.normal([0] * 7 + [0.875], [0.03] * 7 + [0.08], (blocks, 8))
            arms = [Contrast((i, 0), robust_centre(values[:, i] - values[:, 0]), i < 7) for i in range(1, 8)]
            far = share(arms, 7)[-1]
            held.append(not far.interval().leaves_out(0.875))
            assert (far.interval_together().low or 0) > 0
            assert far.degrees == blocks - 1 + borrowed
        assert np.mean(held) > 0.93
