"""Random effects: against a published example, against what they are by definition, and where the usual ways fail."""

import numpy as np
import pytest
from scipy.special import chdtri

from kit.extra.fleet.analysis import random_effects
from kit.extra.fleet.analysis.random_effects import ENDS, Effects, draw, find_chances, fit

#: Thirteen trials of BCG vaccine, logarithms of relative risks with their variances (Colditz et al. 1994), as the
#: documentation of metafor (Viechtbauer 2010) has them: tau² 0.318 by Paule and Mandel, Q-profile 0.1197 to 1.1115.
Y = np.array([-0.8893, -1.5854, -1.3481, -1.4416, -0.2175, -0.7861, -1.6209, 0.0120, -0.4694, -1.3713, -0.3394, 0.4459,
              -0.0173])  # fmt: skip
V = np.array([0.3256, 0.1946, 0.4154, 0.0200, 0.0512, 0.0069, 0.2230, 0.0040, 0.0564, 0.0730, 0.0124, 0.5325, 0.0714])
MANY = np.full(13, 1e7)  # degrees of freedom of a variance that is known


def test_of_known_noise_tau_is_paule_and_mandels_and_the_mean_hartung_and_knapps() -> None:
    found = fit(Effects(Y, V, MANY))
    assert float(found.tau2) == pytest.approx(0.3181, abs=0.0005)
    w = 1 / (V + found.tau2)
    mean = (w * Y).sum() / w.sum()
    error = ((w * (Y - mean) ** 2).sum() / 12 / w.sum()) ** 0.5
    assert [float(found.mean), float(found.error)] == pytest.approx([mean, error])


def test_equal_noise_makes_it_a_t_test_over_machines_and_the_draws_the_q_profile() -> None:
    figures = Effects(Y, np.full(13, 0.1), MANY)
    found = fit(figures)
    assert [float(found.mean), float(found.error)] == pytest.approx([Y.mean(), Y.std(ddof=1) / 13**0.5])
    assert float(found.tau2) == pytest.approx(Y.var(ddof=1) - 0.1, rel=1e-5)
    ends = [Y.var(ddof=1) * 12 / float(chdtri(12, tail)) - 0.1 for tail in (0.025, 0.975)]
    assert np.quantile(draw(figures).tau2, ENDS).tolist() == pytest.approx(ends, rel=0.01)


def test_many_fleets_are_each_fitted_by_itself() -> None:
    rng = np.random.default_rng(1)
    y, v = rng.normal(0, 0.05, (20, 6)), 0.001 * rng.chisquare(4, (20, 6))
    d = np.full(6, 4.0)
    together, chances = fit(Effects(y, v, d)), find_chances(Effects(y, v, d))
    for i in range(20):
        one = fit(Effects(y[i], v[i], d))
        assert float(one.mean) == pytest.approx(together.mean[i], rel=1e-4)
        assert float(one.tau2) == pytest.approx(together.tau2[i], rel=1e-4, abs=1e-12)
        assert find_chances(Effects(y[i], v[i], d)) == pytest.approx(chances[i], rel=1e-3)


def test_no_noise_and_no_difference_is_no_error() -> None:
    figures = Effects(np.full(4, 0.1), np.zeros(4), np.full(4, 2.0))
    found = fit(figures)
    assert [float(found.mean), float(found.error), float(found.tau2)] == pytest.approx([0.1, 0, 0])
    assert np.isfinite(draw(figures).another).all()


def test_one_machine_far_off_is_an_outlier_and_no_other() -> None:
    y = np.array([0.04, 0.05, 0.045, 0.052, 0.041, 0.20])
    chances = find_chances(Effects(y, np.full(6, 1e-5), np.full(6, 4.0)))
    assert chances.argmin() == 5 and chances[5] < 0.01 and (chances[:5] > 0.5).all()


@pytest.mark.parametrize("shared", [True, False])
def test_of_many_machines_the_farthest_are_judged_as_if_each_were_left_out(
    shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    noise = 0.01 * np.ones((5, 70)) if shared else 0.01 * np.exp(rng.normal(0, 0.5, (5, 70)))
    y = rng.normal(0, 0.02, noise.shape) + rng.normal(0, 1, noise.shape) * noise
    y[:, 0] += 0.15
    v = noise**2 * (1 if shared else rng.chisquare(3, noise.shape) / 3)
    figures = Effects(y, v, np.full(70, 3.0), shared)
    quick = find_chances(figures)
    monkeypatch.setattr(random_effects, "_FITTED_ANEW", 70)
    slow = find_chances(figures)
    assert quick.argmin(-1).tolist() == slow.argmin(-1).tolist() and (slow.min(-1) < 0.01).any()
    assert quick.min(-1) == pytest.approx(slow.min(-1), rel=1e-6)
    assert ((quick < 0.5) == (slow < 0.5)).all()


def test_a_noisy_machine_of_many_is_no_outlier() -> None:
    """Drawn towards the noise of forty others its own would be far less than it is; one that is as quiet as the others
    and as far off stands out."""
    rng = np.random.default_rng(4)
    fleets, machines, d, sigma = 200, 40, 4, 0.02
    scale = np.full(machines, sigma)
    scale[0] *= 5
    y = scale * rng.normal(0, 1, (fleets, machines))
    v = scale**2 * rng.chisquare(d, (fleets, machines)) / d
    noisy = find_chances(Effects(y, v, np.full(machines, float(d))))[:, 0] < 0.05
    y[:, 1] += 8 * sigma
    quiet = find_chances(Effects(y, v, np.full(machines, float(d))))[:, 1] < 0.05
    assert noisy.mean() < 0.04 and quiet.mean() > 0.9


def test_a_prediction_is_as_wide_as_machines_scatter() -> None:
    """Of fifty machines tau is known well: of another, 1.96 tau either way, and a little more for what is not known."""
    rng = np.random.default_rng(2)
    tau = 0.05
    y = 0.1 + rng.normal(0, tau, 50) + rng.normal(0, 0.01, 50)
    low, high = np.quantile(draw(Effects(y, np.full(50, 1e-4), np.full(50, 6.0))).another, ENDS)
    assert 1.9 * y.std() < (high - low) / 2 < 2.3 * y.std() and low < 0.1 < high


def test_few_rounds_of_each_machine_are_not_known_variances() -> None:
    """Of two degrees of freedom a variance may be a hundredth of the true one: the machine would have all the weight,
    and the interval of the mean be right in four fleets of five."""
    rng = np.random.default_rng(3)
    fleets, machines, d = 2000, 10, 2
    y, v = rng.normal(0, 0.02, (fleets, machines)), 0.02**2 * rng.chisquare(d, (fleets, machines)) / d
    found = fit(Effects(y, v, np.full(machines, float(d))))
    held = np.mean(np.abs(found.mean) <= 2.262 * found.error)
    w = 1 / v
    naive = (w * y).sum(-1) / w.sum(-1)
    scale = np.sqrt((w * (y - naive[:, None]) ** 2).sum(-1) / (machines - 1) / w.sum(-1))
    assert held > 0.93 and np.mean(np.abs(naive) <= 2.262 * scale) < 0.90
