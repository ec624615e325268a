"""Variances of the arms of one session, moderated by each other. Pure. Sources: kit.analysis.pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kit.analysis.stats import ROBUST_FROM, Floats, robust_centre

#: Logarithms of variances, in units of the session's: those looked at, and where the session's may lie.
_GRID, _COMMON = np.linspace(-3.0, 8.0, 45), np.linspace(-1.25, 1.25, 11)
#: A noisier arm is moderated as if its variance had this logarithm; the rest is its own.
_NOISIEST = 4.0
#: Prior of the logarithm of an arm's variance about the session's, usual and noisy: weight, mean, standard deviation.
_ARMS = (0.7, 0.0, 0.25), (0.3, 1.0, 1.8)
_LEAST = 1e-200  # variance
#: Degrees of freedom that a shared variance weighs.
BORROWED = 2

Places = tuple[tuple[int, int], ...]


def arm_variances(values: Floats, mask: NDArray[np.bool_], trimmed: bool = False) -> Floats:
    """Variances of one run of each arm, arms x draws. ``values``: arms x rounds x draws, 0
    where ``mask`` has no value.

    Residuals are from means of arms and from means of rounds that weigh arms by their precision. An arm's residuals
    have its variance but for its share in that mean. ``trimmed``: one draw, of which the centres are trimmed from
    ROBUST_FROM rounds on, and so are the residuals.
    """
    present = mask[:, :, None].astype(float)
    n = np.maximum(mask.sum(axis=1), 1)
    weights = np.ones((values.shape[0], 1))
    found = np.empty((values.shape[0], values.shape[2]))
    effect: Floats = values.sum(axis=1) / n[:, None]
    for _ in range(5):
        weighted = weights[:, None, :] * present
        total = np.maximum(weighted.sum(axis=0), 1e-300)
        rest = (values - effect[:, None, :]) * present
        rounds = (weighted * rest).sum(axis=0) / total
        rest = (rest - rounds) * present
        moved = rest.sum(axis=1) / n[:, None]
        effect = effect + moved
        rest = (rest - moved[:, None, :]) * present
        lost = (weighted / total).sum(axis=1) / n[:, None]
        found = (rest**2).sum(axis=1) / np.maximum((n[:, None] - 1) * (1 - lost), 1e-9)
        weights = 1 / np.maximum(found + _middle(found), _LEAST)
    for arm in np.flatnonzero(n >= ROBUST_FROM) if trimmed else ():
        error = robust_centre(rest[arm, mask[arm], 0]).error or 0.0
        found[arm] = error**2 * n[arm] / (1 - lost[arm])
    return found


def _middle(variances: Floats) -> Floats:
    middle: Floats = np.median(variances, axis=0)
    return middle


def _prior() -> Floats:
    """Of an arm's variance where the session's is one of ``_COMMON``: ``_GRID`` x ``_COMMON``."""
    away = _GRID[:, None] - _COMMON
    densities = [(weight, np.exp(-(((away - mean) / spread) ** 2) / 2)) for weight, mean, spread in _ARMS]
    prior: Floats = sum(weight * density / density.sum(axis=0) for weight, density in densities)
    return prior


def moderate(variances: Floats, degrees: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Moderated variances and their degrees of freedom, arms x draws. See the module."""
    d = np.maximum(degrees, 1)[:, None]
    unit = np.maximum(_middle(variances / median_share(np.maximum(degrees, 1))[:, None]), _LEAST)
    log = np.log(np.maximum(variances / unit, 1e-6))
    beyond = np.maximum(log - _NOISIEST, 0)
    away = (log - beyond)[..., None] - _GRID
    likelihood = np.exp(d[..., None] / 2 * (away - np.exp(away) + 1))  # of chi²
    prior = _prior()
    each = np.maximum(likelihood @ prior, 1e-300)
    weight = np.log(each).sum(axis=0)
    weight = np.exp(weight - weight.max(axis=-1, keepdims=True))
    weight /= weight.sum(axis=-1, keepdims=True)
    posterior = ((weight / each) @ prior.T) * likelihood
    posterior /= posterior.sum(axis=-1, keepdims=True)
    mean = posterior @ _GRID
    spread = np.maximum(posterior @ _GRID**2 - mean**2, 1e-3)
    # trigamma(x) is about 1 / x + 1 / 2x², log(x) - digamma(x) about 1 / 2x + 1 / 12x².
    half = (1 + np.sqrt(1 + 2 * spread)) / (2 * spread)
    return np.exp(mean + beyond - 1 / (2 * half) - 1 / (12 * half**2)) * unit, 2 * half


def lift(variances: Floats, degrees: NDArray[np.int64], alike: Sequence[bool]) -> tuple[Floats, Floats]:
    """Variances of comparisons, comparisons x draws, lifted where they lie below what those that are alike share."""
    mine, d = np.array(alike), degrees[:, None].astype(float)
    shared = _middle(variances[mine] / median_share(degrees[mine])[:, None])
    freedom: Floats = d + BORROWED
    return np.maximum(variances, (BORROWED * shared + d * variances) / freedom), freedom


def of_comparisons(
    variances: Floats, degrees: Floats, places: Places, scales: Sequence[tuple[float, float]] = ()
) -> tuple[Floats, Floats]:
    """Of comparisons x draws, with Satterthwaite's degrees of freedom."""
    first, second = np.array(places).T
    scale = np.array(scales or [(1.0, 1.0)] * len(places)) ** 2
    one, other = scale[:, :1] * variances[first], scale[:, 1:] * variances[second]
    share_ = one / (one + other)
    return one + other, 1 / (share_**2 / degrees[first] + (1 - share_) ** 2 / degrees[second])


def median_share(degrees: NDArray[np.int64]) -> Floats:
    """The median of an estimated variance, as a share of the true one."""
    from scipy.special import chdtri

    share: Floats = np.asarray(chdtri(degrees, 0.5) / degrees, float)
    return share
