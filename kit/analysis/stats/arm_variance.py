"""Variances of the arms of one session, moderated by each other. Pure. Sources: ``variance_pooling``."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kit.analysis.stats.estimators import ROBUST_FROM, Floats, robust_centre

#: Grids of logarithms of variances, in units of the session's: an arm's variance, and the session's.
_GRID, _COMMON = np.linspace(-3.0, 8.0, 45), np.linspace(-1.25, 1.25, 11)
#: Limit of the logarithm for moderation: a noisier arm is moderated as at the limit, and keeps the rest.
_NOISIEST = 4.0
#: Prior of the logarithm of an arm's variance about the session's, usual and noisy: weight, mean, standard deviation.
_ARMS = (0.6, 0.0, 0.25), (0.4, 1.5, 1.4)
#: Logarithms of estimated variances at which the posterior is tabulated: from, to, step.
_LOWEST, _STEP = -14.0, 1 / 256
_LEAST = 1e-200  # variance
#: Degrees of freedom that a shared variance weighs.
BORROWED = 2

Places = tuple[tuple[int, int], ...]


def arm_variances(values: Floats, mask: NDArray[np.bool_], trimmed: bool = False) -> Floats:
    """Return variances of one run of each arm, arms x draws. ``values``: arms x rounds x draws, 0 where ``mask`` has no
    value.

    Residuals are from means of arms, and from means of rounds that weigh arms by their precision. An arm's residuals
    have its variance except for its share in that mean. ``trimmed``: one draw with trimmed centres from ROBUST_FROM
    rounds on; its residuals are trimmed as well."""
    present = mask[:, :, None].astype(float)
    n = np.maximum(mask.sum(axis=1), 1)
    weights = np.ones((values.shape[0], 1))
    variances = np.empty((values.shape[0], values.shape[2]))
    effect: Floats = values.sum(axis=1) / n[:, None]
    for _ in range(5):
        weighted = weights[:, None, :] * present
        total = np.maximum(weighted.sum(axis=0), 1e-300)
        residuals = (values - effect[:, None, :]) * present
        rounds = (weighted * residuals).sum(axis=0) / total
        residuals = (residuals - rounds) * present
        moved = residuals.sum(axis=1) / n[:, None]
        effect = effect + moved
        residuals = (residuals - moved[:, None, :]) * present
        lost = (weighted / total).sum(axis=1) / n[:, None]
        variances = (residuals**2).sum(axis=1) / np.maximum((n[:, None] - 1) * (1 - lost), 1e-9)
        weights = 1 / np.maximum(variances + _middle(variances), _LEAST)
    for arm in np.flatnonzero(n >= ROBUST_FROM) if trimmed else ():
        error = robust_centre(residuals[arm, mask[arm], 0]).error or 0.0
        variances[arm] = error**2 * n[arm] / (1 - lost[arm])
    return variances


def _middle(variances: Floats) -> Floats:
    middle: Floats = np.median(variances, axis=0)
    return middle


def _prior() -> Floats:
    """Return the prior of an arm's variance for each session variance in ``_COMMON``: ``_GRID`` x ``_COMMON``."""
    away = _GRID[:, None] - _COMMON
    densities = [(weight, np.exp(-(((away - mean) / spread) ** 2) / 2)) for weight, mean, spread in _ARMS]
    prior: Floats = sum(weight * density / density.sum(axis=0) for weight, density in densities)
    return prior


def moderated_variances(values: Floats, mask: NDArray[np.bool_], degrees: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return ``moderate`` of the arms of one session. Ratios and differences of the same runs share the result."""
    return _moderated(values.tobytes(), mask.tobytes(), values.shape, degrees)


@lru_cache(maxsize=4)
def _moderated(values: bytes, mask: bytes, shape: tuple[int, ...], degrees: tuple[int, ...]) -> tuple[Floats, Floats]:
    table, present = np.frombuffer(values).reshape(shape), np.frombuffer(mask, bool).reshape(shape[:2])
    return moderate(arm_variances(table, present, trimmed=True), np.array(degrees))


def moderate(variances: Floats, degrees: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return moderated variances and their degrees of freedom, arms x draws. See the module."""
    d = np.maximum(degrees, 1)
    unit = np.maximum(_middle(variances / median_share(d)[:, None]), _LEAST)
    log = np.log(np.maximum(variances / unit, 1e-6))
    beyond = np.maximum(log - _NOISIEST, 0)
    away = (log - beyond - _LOWEST) / _STEP
    row = away.astype(np.intp)
    posterior = np.empty((3, *log.shape, _COMMON.size))
    for i, freedom in enumerate(d.tolist()):
        table = _posterior(freedom)
        part = (away[i] - row[i])[:, None]
        posterior[:, i] = table[:, row[i]] * (1 - part) + table[:, row[i] + 1] * part
    weight = posterior[0].sum(axis=0)
    weight = np.exp(weight - weight.max(axis=-1, keepdims=True))
    weight /= weight.sum(axis=-1, keepdims=True)
    mean, square = (posterior[1:] * weight).sum(axis=-1)
    spread = np.maximum(square - mean**2, 1e-3)
    # trigamma(x) is about 1 / x + 1 / 2x², log(x) - digamma(x) about 1 / 2x + 1 / 12x².
    half = (1 + np.sqrt(1 + 2 * spread)) / (2 * spread)
    return np.exp(mean + beyond - 1 / (2 * half) - 1 / (12 * half**2)) * unit, 2 * half


@lru_cache(maxsize=64)
def _posterior(degrees: int) -> Floats:
    """Return the posterior of an arm with these degrees of freedom, for each session variance in ``_COMMON``. It has
    the logarithm of the likelihood, and the means of the arm's log variance and of its square. Shape: 3 x estimates x
    ``_COMMON``."""
    away = np.arange(_LOWEST, _NOISIEST + 2 * _STEP, _STEP)[:, None] - _GRID
    likelihood, prior = np.exp(degrees / 2 * (away - np.exp(away) + 1)), _prior()  # of chi²
    each = np.maximum(likelihood @ prior, 1e-300)
    means = [(likelihood * _GRID**power) @ prior / each for power in (1, 2)]
    return np.array([np.log(each), *means])


def lift(variances: Floats, degrees: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return variances of comparisons, comparisons x draws; values below the shared one are lifted."""
    d = degrees[:, None].astype(float)
    shared = _middle(variances / median_share(degrees)[:, None])
    freedom: Floats = d + BORROWED
    return np.maximum(variances, (BORROWED * shared + d * variances) / freedom), freedom


def of_comparisons(
    variances: Floats, degrees: Floats, places: Places, scales: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return variances of comparisons, comparisons x draws, with Satterthwaite's degrees of freedom. ``scales``: see
    variance_pooling.Contrast."""
    first, second = np.array(places).T
    scale = np.ones((len(places), 2)) if scales is None else scales**2
    first_part, second_part = scale[:, :1] * variances[first], scale[:, 1:] * variances[second]
    share_ = first_part / (first_part + second_part)
    return first_part + second_part, 1 / (share_**2 / degrees[first] + (1 - share_) ** 2 / degrees[second])


def median_share(degrees: NDArray[np.int64]) -> Floats:
    """Return the median of an estimated variance, as a share of the true one."""
    from scipy.special import chdtri

    share: Floats = np.asarray(chdtri(degrees, 0.5) / degrees, float)
    return share
