"""Random effects: estimates for all machines from the figures of several. Arrays in, arrays out. Pure.

The last axis is machines, so that a simulation takes many at once. Machine i reports y_i, a normal value about its own
truth with variance v_i. An estimate of v_i with d_i degrees of freedom is known. Truths scatter about the mean of all
with variance tau². If the d_i are few, v_i must not be treated as known (docs/explanation/fleet.md has the effect)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from kit.analysis.stats.estimators import CONFIDENCE, Floats

Indices = NDArray[np.intp]

#: A machine's standard error is at least a millionth: if all figures agree, a finite weight must remain.
_LEAST = 1e-12
#: Iterations between weights and tau², and the largest last change, as a share of the mean's variance.
_TURNS, _PLAIN, _NEAR = 40, 3, 1e-4
#: Below the first number of machines all weigh the same; from the second on the scatter of their variances is known.
_WEIGHED_FROM, _SCATTER_FROM = 5, 20
#: Up to this number of machines the rest is fitted again without each, of more without each of the farthest.
_FITTED_ANEW, _FARTHEST = 50, 5
#: Fixed: the same machines always have the same interval.
_SEED = 20_261_122
#: Draws of an interval; strata make their quantiles accurate.
_DRAWS = 20_000
#: The least scatter of variances (of their logarithms) that differs significantly from none.
_ALIKE = 1e-4
#: Noise is treated as a machine's own if the others' noise makes such an estimate at most this probable.
_NOISY = 0.05
#: Quantiles that end an interval.
ENDS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)


@dataclass(frozen=True)
class Effects:
    """Data of machines. Shape: fleets x machines, or machines alone."""

    y: Floats  # log ratios
    v: Floats  # variances of the log ratios
    d: Floats  # degrees of freedom of these variances
    shared: bool = False  # all variances of a fleet come from one estimate
    n: Floats | float = 1.0  # number of rounds of each machine

    @property
    def machines(self) -> int:
        return int(self.y.shape[-1])

    @cached_property
    def squeezed(self) -> Squeezed:
        """Return the variances, moderated towards their shared value, the more so the more equal they seem. A machine
        whose few rounds agree at random would otherwise have all the weight. Too few machines weigh the same."""
        if self.shared:
            return Squeezed(np.maximum(self.v, _LEAST), np.broadcast_to(self.d, self.v.shape))
        moderated = squeeze(np.maximum(self.v * self.n, _LEAST), self.d)
        return Squeezed(moderated.v / self.n, moderated.d)

    @cached_property
    def expected(self) -> Floats:
        """Return the mean true variances. If a noisy machine weighs less, too large and too small estimates no longer
        balance. The scatter of variances allows for this, but only many machines show that scatter."""
        if self.shared or self.machines < _SCATTER_FROM:
            return np.maximum(self.v, _LEAST)
        squeezed = self.squeezed
        return squeezed.v * squeezed.d / np.maximum(squeezed.d - 2, squeezed.d / 3)

    @cached_property
    def noise(self) -> Floats:
        """Return the noise that weights are based on."""
        if self.machines >= _WEIGHED_FROM:
            return self.squeezed.v
        return np.broadcast_to(self.squeezed.v.mean(axis=-1, keepdims=True), self.v.shape)


@dataclass(frozen=True)
class Squeezed:
    """Variances, with their degrees of freedom."""

    v: Floats
    d: Floats


def squeeze(v: Floats, d: Floats) -> Squeezed:
    """Return estimates of several variances, of ``d`` degrees of freedom each, moderated towards each other. Variances
    are assumed to scatter as 1/chi², with degrees of freedom from their own scatter (Smyth 2004)."""
    from scipy.special import digamma, polygamma

    least = np.maximum(v, np.maximum(1e-5 * np.median(v, axis=-1, keepdims=True), _LEAST))
    logs = np.log(least) - digamma(d / 2) + np.log(d / 2)
    scatter = logs.var(axis=-1, ddof=1, keepdims=True) - np.mean(polygamma(1, d / 2), axis=-1, keepdims=True)
    half = _trigamma_inverse(np.maximum(scatter, _ALIKE))
    common = np.exp(logs.mean(axis=-1, keepdims=True) + digamma(half) - np.log(half))
    return Squeezed((2 * half * common + d * v) / (2 * half + d), 2 * half + d)


def _trigamma_inverse(values: Floats) -> Floats:
    """Return the inverse of trigamma by Newton's method on 1 / trigamma, which is nearly straight (Smyth 2004)."""
    from scipy.special import polygamma

    root: Floats = 0.5 + 1 / values
    for _ in range(8):
        there = polygamma(1, root)
        root = root + there * (1 - there / values) / polygamma(2, root)
    return root


@dataclass(frozen=True)
class Fit:
    """Estimates for fleets."""

    w: Floats  # weights of the machines
    tau2: Floats  # variance of the machines' truths
    mean: Floats  # weighted, of the machines
    error: Floats  # standard error of the mean: Student's t with the number of machines less 1
    squares: Floats  # weighted, about the mean; their expectation is noise + slope * tau²
    noise: Floats
    slope: Floats
    of_noise: Floats  # degrees of freedom of ``noise``


def fit(effects: Effects) -> Fit:
    """Return the fit with weights 1 / (tau² + noise) from moderated noise; the expectation of squares uses the mean
    noise. If noise is well known, both are equal and tau² is that of Paule and Mandel. The fit iterates between moments
    and weights (DerSimonian and Kacker 2007).

    The error rests on the distances between machines, not on their own estimates of noise (Hartung and Knapp 2001;
    Sidik and Jonkman 2002)."""
    y, machines = effects.y, effects.machines
    expected = effects.expected
    tau2 = np.maximum(y.var(axis=-1, ddof=1) - expected.mean(axis=-1), 0.0)
    for turn in range(_TURNS):
        w = 1 / (effects.noise + tau2[..., None])
        total = w.sum(axis=-1)
        mean = (w * y).sum(axis=-1) / total
        squares = (w * (y - mean[..., None]) ** 2).sum(axis=-1)
        parts = w * (1 - w / total[..., None])
        noise, slope = (parts * expected).sum(axis=-1), parts.sum(axis=-1)
        better = np.maximum((squares - noise) / slope, 0.0)
        if (np.abs(better - tau2) <= _NEAR * (better + 1 / total)).all():
            break
        tau2 = better if turn < _PLAIN else (tau2 + better) / 2  # some would go to and fro for ever
    spread = (((parts * expected) ** 2) / effects.d).sum(axis=-1)
    own_degrees = np.divide(noise**2, spread, out=np.ones_like(noise), where=spread > 0)  # Satterthwaite 1946
    degrees = np.broadcast_to(effects.d[..., 0], noise.shape) if effects.shared else own_degrees
    error = np.sqrt(squares / (machines - 1) / total)
    return Fit(w, better, mean, error, squares, noise, slope, degrees)


@dataclass(frozen=True)
class Draws:
    """Possible values of tau² and of an unmeasured machine's truth, given the figures: draws along the last axis."""

    tau2: Floats
    another: Floats


def draw(effects: Effects, count: int = _DRAWS) -> Draws:
    """Return draws of generalised pivots (Weerahandi 1995; Iyer, Wang and Mathew 2004): squares over chi², less noise
    over chi². With known, equal noise, tau² has the Q-profile's quantiles (Viechtbauer 2007). An unmeasured machine has
    about Nagashima's (2019)."""
    fitted = fit(effects)
    rng = np.random.default_rng(_SEED)
    shape = (*fitted.mean.shape, count)
    scale, normal = (
        rng.permuted(np.broadcast_to(values, shape), axis=-1) for values in _strata(effects.machines, count)
    )
    degrees = fitted.of_noise[..., None]
    noise = fitted.noise[..., None] * degrees / rng.chisquare(degrees, shape)
    tau2 = np.maximum((fitted.squares[..., None] * scale - noise) / fitted.slope[..., None], 0.0)
    spread = np.sqrt(fitted.error[..., None] ** 2 * scale + tau2)
    return Draws(tau2, fitted.mean[..., None] + spread * normal)


@lru_cache(8)
def _strata(machines: int, count: int) -> tuple[Floats, Floats]:
    """Return stratified quantiles of degrees of freedom over chi², and of the normal distribution. Strata make
    quantiles of few draws accurate."""
    from scipy.special import chdtri, ndtri

    levels = (np.arange(count) + 0.5) / count
    return (machines - 1) / chdtri(machines - 1.0, levels), ndtri(levels)


@dataclass(frozen=True)
class _WithoutOne:
    """Estimates without one machine, along the last axis for each that is left out."""

    mean: Floats
    error: Floats
    tau2: Floats
    alone: Floats  # the mean's variance, from the machines' own estimates of noise


def _fit_without(effects: Effects, omitted: Indices) -> _WithoutOne:
    """Return fits without each of those machines."""
    places = np.arange(effects.machines - 1)
    others = places + (places >= omitted[..., None])

    def of_others(values: Floats | float) -> Floats:
        return np.take_along_axis(np.broadcast_to(values, effects.y.shape)[..., None, :], others, axis=-1)

    y, v, d, n = map(of_others, (effects.y, effects.v, effects.d, effects.n))
    fitted = fit(Effects(y, v, d, effects.shared, n))
    return _WithoutOne(fitted.mean, fitted.error, fitted.tau2, 1 / fitted.w.sum(axis=-1))


def _approximate_without(effects: Effects) -> _WithoutOne:
    """Return the same with the weights of all, from moments without iteration: sums less one machine's part. With a
    thousand machines this is a thousandth of the work, and shows which are the farthest."""
    y, w, noise = effects.y, fit(effects).w, effects.expected
    total, mean = _without(w), _without(w * y) / _without(w)
    centre = (w * y).sum(axis=-1, keepdims=True) / w.sum(axis=-1, keepdims=True)
    squares = np.maximum(_without(w * (y - centre) ** 2) - total * (mean - centre) ** 2, 0.0)
    slope = total - _without(w**2) / total
    tau2 = np.maximum((squares - _without(w * noise) + _without(w**2 * noise) / total) / slope, 0.0)
    return _WithoutOne(mean, np.sqrt(squares / (effects.machines - 2) / total), tau2, 1 / total)


def _without(values: Floats) -> Floats:
    """Return sums along the last axis of all but each."""
    sums: Floats = values.sum(axis=-1, keepdims=True) - values
    return sums


def find_residuals(effects: Effects) -> tuple[Floats, Floats]:
    """Return each machine's distance from the others' estimate, in standard errors of that distance, with degrees of
    freedom. These are externally studentised residuals, Student's t with the number of machines less 2. Degrees are
    fewer if the machine's own noise dominates and is poorly known (Satterthwaite 1946). Needs four machines."""
    everyone = np.broadcast_to(np.arange(effects.machines), effects.y.shape)
    if effects.machines <= _FITTED_ANEW:
        return _residuals(effects, everyone, _fit_without(effects, everyone))
    residuals = _residuals(effects, everyone, _approximate_without(effects))
    farthest = np.argsort(-np.abs(residuals[0]), axis=-1)[..., :_FARTHEST]
    for all_, better in zip(residuals, _residuals(effects, farthest, _fit_without(effects, farthest)), strict=True):
        np.put_along_axis(all_, farthest, better, axis=-1)
    return residuals


def _residuals(effects: Effects, which: Indices, others: _WithoutOne) -> tuple[Floats, Floats]:
    noise = _own_noise(effects)
    y, variance, d = (np.take_along_axis(values, which, axis=-1) for values in (effects.y, noise.v, noise.d))
    theirs = others.tau2 + others.alone
    away = (y - others.mean) / (np.maximum(others.error / np.sqrt(others.alone), 1.0) * np.sqrt(variance + theirs))
    degrees = (variance + theirs) ** 2 / (variance**2 / d + theirs**2 / (effects.machines - 2))
    return away, np.minimum(degrees, effects.machines - 2.0)


def _own_noise(effects: Effects) -> Squeezed:
    """Return the noise that a machine is judged by: the expected noise of all, or its own if far larger. A noisy
    machine would otherwise pass for an outlier (Phipson et al. 2016 do not moderate such variances)."""
    from scipy.special import fdtrc

    noise, d = np.maximum(effects.expected, effects.squeezed.v), effects.squeezed.d
    noisy = (effects.v > noise) & (fdtrc(effects.d, d, effects.v / noise) < _NOISY)
    return Squeezed(np.where(noisy, effects.v, noise), np.where(noisy, effects.d, d))


def find_chances(effects: Effects) -> Floats:
    """Return each machine's p of such a distance if all machines of the fleet fit (Bonferroni)."""
    from scipy.special import stdtr

    away, degrees = find_residuals(effects)
    alone = 2 * stdtr(degrees, -np.abs(away))
    chances: Floats = np.minimum(alone * effects.machines, 1.0)
    return chances
