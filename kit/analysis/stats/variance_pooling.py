"""Variance of each comparison, moderated by the variances of all arms of a session. Pure.

A comparison alone has n - 1 degrees of freedom, and with 3 rounds its variance is right by a factor of 4 or so. All
arms of a session ran on one machine, and most have about the same noise on the logarithmic scale. Some are noisier. So
the variances are moderated as in limma (Smyth 2004, doi:10.2202/1544-6115.1027; robust: Phipson et al. 2016,
doi:10.1214/16-AOAS920), by a prior of two parts:

1. Each arm's variance comes from its residuals in a rounds x arms layout whose arms are weighted by their precision.
2. With probability 0.6 an arm's variance is about the session's, which is unknown; else it may be anything.
3. The posterior of each logarithm of a variance, on a grid, gives its mean and variance. The scaled inverse chi² with
   the same two gives the moderated variance and its degrees of freedom: many where arms agree, few for a noisy arm.
4. A comparison has the sum of its arms' variances, with Satterthwaite's degrees of freedom (1946).

The very procedure is simulated to find the quantiles, individual and of the largest error of a family, which takes the
common baseline into account (Dunnett 1955). The simulated arms differ in noise by ``_DIFFER``, as those of a real
session do. Of few rounds a noisy arm is seldom seen to be noisy. So sessions are simulated too in which one arm is
``_TIMES`` as noisy: the arm that most comparisons share, or each arm once. There an interval, and a family, may err
``_MORE_ERRORS`` as often. The largest of the three quantiles counts.

Comparisons without values of arms (steps of a ladder, growth, stacks) have their own variances, lifted where they lie
below what all of them share. Each is first divided by what noise of the same size on the logarithmic scale makes of it.
A comparison whose noise is not that of the others has its own alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kit.analysis.stats.arm_variance import (
    Places,
    arm_variances,
    lift,
    moderate,
    moderated_variances,
    of_comparisons,
)
from kit.analysis.stats.estimate import Estimate, Interval
from kit.analysis.stats.estimators import CONFIDENCE, Centre, Floats, own_degrees, student_quantile
from kit.analysis.stats.sequential import widening

POWER = 0.80

#: Standard deviation of the logarithm of the simulated arms' standard deviations.
_DIFFER = 0.25
#: Noise of the noisy arm in the other simulated sessions, and error rate of intervals there, both as factors.
_TIMES, _MORE_ERRORS = 5.0, 1.4
#: The noisy arm: the first, which most comparisons of the family share, or each arm after the other.
_FIRST, _EACH = 0, -1
#: Simulated sessions, half as many with a noisy arm; fewer if the number of pairs would fill the memory.
_DRAWS, _LEAST_DRAWS, _MOST_VALUES = 12_000, 2_000, 600_000
_SEED = 20_261_121
#: The largest number of needed rounds.
_MOST_ROUNDS = 100_000
#: Degrees of freedom of a known error.
MANY = 1_000
#: Above this number of degrees of freedom all quantiles are as good as equal.
_MOST = 20
#: The smallest scale that is divided by.
_LEAST_SCALE = 1e-200
#: A quantile with at least this number of draws beyond it is simulated; farther out the normal distribution continues.
_BEYOND = 50

Pair = tuple[Hashable, Hashable]


@dataclass(frozen=True, eq=False)
class Values:
    """Logarithms of two arms in the ``rounds`` that contain both."""

    rounds: NDArray[np.int64]
    arm: Floats
    base: Floats


@dataclass(frozen=True)
class Contrast:
    """The difference of two arms."""

    pair: Pair
    centre: Centre  # by its own values alone
    alike: bool  # shares the noise estimate of the others
    counted: bool = True  # belongs to the family; a control does not
    values: Values | None = None  # None if only the centre is known
    #: The comparison's change with the logarithm of either arm: (1, 1) for a ratio's logarithm.
    scale: tuple[float, float] = (1.0, 1.0)
    #: Welch's degrees of freedom, no whole number; None for the centre's.
    freedom: float | None = None


@dataclass(frozen=True)
class PooledEstimate(Centre):
    """A centre with an error from the shared estimate of noise. Student's t with its degrees of freedom gives the 95 %
    interval. The degrees are never fewer than the comparison's own."""

    #: Half-width of the interval that is simultaneous with its family, in errors.
    together: float = 0.0
    detected: float = 0.0  # the difference, in errors, whose interval excludes 0 with 80 % power
    spread: float | None = None  # of one round, unbiased in the median; None if n < 2
    #: Half-width, in errors, for two one-sided tests of the same family: twice the total error rate of
    #: ``together``, so that on either side the rate equals that of ``together`` on both.
    bounded: float = 0.0
    #: ``together`` and ``bounded`` of a known error that is the same at every look, which needs no widening.
    lasting: tuple[float, float] = (0.0, 0.0)

    def interval_together(self) -> Interval:
        return self._interval(self.together)

    def estimated(self) -> Estimate:
        """Return the estimate with its individual interval, the simultaneous one, and the simultaneous 90 % interval
        for equivalence by two one-sided 5 % tests (Schuirmann 1987)."""
        alone, together, bounded = self.interval(), self.interval_together(), self._interval(self.bounded)
        return Estimate(alone.estimate, alone.low, alone.high, alone.n, together, bounded, neutral=0.0)

    def _interval(self, errors: float) -> Interval:
        if self.error is None:
            return Interval(self.estimate, None, None, self.n)
        half = errors * self.error
        return Interval(self.estimate, self.estimate - half, self.estimate + half, self.n)

    def detectable(self) -> float | None:
        """Return the smallest true value that a verdict's interval detects with 80 % power. None if n < 2."""
        return None if self.error is None else self.detected * self.error


def share(contrasts: Sequence[Contrast], family: int, looks: int = 0) -> list[PooledEstimate]:
    """Return the centres, in the order given, with errors and degrees of freedom for valid 95 % intervals. These are
    individual, and simultaneous with all ``family`` comparisons.

    ``looks``: rounds after which a session that chose its own end has looked at its answer, 0 for one whose number of
    rounds was fixed. An arm that has dropped out was looked at after its own rounds alone: its interval stays as wide
    as it was (kit.analysis.stats.sequential)."""
    pooled = [PooledEstimate(**vars(contrast.centre)) for contrast in contrasts]
    with_error = [i for i, contrast in enumerate(contrasts) if contrast.centre.error is not None]
    alike = [i for i in with_error if contrasts[i].alike]
    if len(alike) < 2:
        alike = []
    joint = alike if all(contrasts[i].values for i in alike) else []
    groups = (joint, True), (sorted(set(alike) - set(joint)), True), (sorted(set(with_error) - set(alike)), False)
    for group, moderated in groups:
        estimates = _share([contrasts[i] for i in group], family, looks, moderated, bool(joint)) if group else []
        for i, centre in zip(group, estimates, strict=True):
            pooled[i] = centre
    return pooled


def _share(group: Sequence[Contrast], family: int, looks: int, moderated: bool, joint: bool) -> list[PooledEstimate]:
    numbers: dict[Hashable, int] = {}
    places = tuple(
        (numbers.setdefault(arm, len(numbers)), numbers.setdefault(base, len(numbers)))
        for arm, base in (contrast.pair for contrast in group)
    )
    counted = tuple(contrast.counted for contrast in group)
    level = (1 - CONFIDENCE) * max(sum(counted), 1) / max(family, 1)  # controls alone have their own
    n = np.array([contrast.centre.n for contrast in group])
    centre_degrees = np.array([contrast.centre.degrees for contrast in group])
    arms: tuple[int, ...] = ()
    scales = np.array([contrast.scale for contrast in group])
    errors = np.array([contrast.centre.error or 0.0 for contrast in group])
    degrees = np.array(
        [contrast.centre.degrees if contrast.freedom is None else contrast.freedom for contrast in group], float
    )
    if moderated and joint:
        values, mask = _layout(group, places, len(numbers))
        arms = tuple(own_degrees(int(rounds)) for rounds in mask.sum(axis=1))
        arm_moments = moderated_variances(values, mask, arms)
        variance, degrees = of_comparisons(*arm_moments, places, scales)
        errors, degrees = np.sqrt(variance[:, 0] / n), degrees[:, 0]
    elif moderated:
        times = np.maximum(np.hypot(*scales.T), _LEAST_SCALE)
        variance, degrees = (column[:, 0] for column in lift(((errors / times) ** 2 * n)[:, None], centre_degrees))
        errors = times * np.sqrt(variance / n)
    few = tuple(min(int(d), _MOST) for d in centre_degrees)
    small = tuple(min(d, _MOST) for d in arms)
    shape = _in_order(places, few, small, moderated, counted)
    quantiles = [_find_quantiles(*shape, level, widening(min(looks, contrast.centre.n))) for contrast in group]
    normal = [
        (each.alone, *((each.together, each.bounded) if counts else (each.alone, each.lone)))
        for each, counts in zip(quantiles, counted, strict=True)
    ]
    halves = _student_quantiles(np.array(normal), degrees[:, None])
    return [
        _made(contrast, float(error), float(freedom), half, each, family)
        for contrast, error, freedom, half, each in zip(group, errors, degrees, halves.tolist(), quantiles, strict=True)
    ]


_Key = tuple[Places, tuple[int, ...], tuple[int, ...], bool, tuple[bool, ...]]


def _in_order(
    places: Places, degrees: tuple[int, ...], arms: tuple[int, ...], moderated: bool, counted: tuple[bool, ...]
) -> _Key:
    """Return comparisons sorted, and arms renumbered by their number of comparisons in the family. Families of one
    shape then need one simulation."""
    numbers = range(1 + max(max(place) for place in places))
    shared = Counter(arm for place, counts in zip(places, counted, strict=True) if counts for arm in place)
    order = sorted(numbers, key=lambda arm: (-shared[arm], -arms[arm] if arms else 0))
    new = {arm: number for number, arm in enumerate(order)}
    numbered = [(min(new[arm], new[base]), max(new[arm], new[base])) for arm, base in places]
    rows = sorted(zip(numbered, degrees, counted, strict=True))
    places, degrees, counted = zip(*rows, strict=True)
    return places, degrees, tuple(arms[arm] for arm in order) if arms else (), moderated, counted


def _made(
    contrast: Contrast, error: float, freedom: float, halves: Sequence[float], quantiles: _Quantiles, family: int
) -> PooledEstimate:
    """Return the estimate. ``halves``: half-widths of the individual interval, of the simultaneous one and of that for
    two one-sided tests, in errors."""
    centre, (alone, together, bounded) = contrast.centre, halves
    degrees = max(round(freedom), centre.degrees)
    half = max(together, alone)
    # The error with which Student's t with whole degrees of freedom gives the individual interval.
    scale = alone / student_quantile(0.5 + CONFIDENCE / 2, degrees)
    return PooledEstimate(
        centre.estimate, error * scale, degrees, centre.n, half / scale,
        (half + quantiles.power / quantiles.median) / scale, error / quantiles.median * math.sqrt(centre.n),
        bounded / scale, lasting_quantiles(family if contrast.counted else 1),
    )  # fmt: skip


def lasting_quantiles(family: int) -> tuple[float, float]:
    """Return what ``lasting`` holds of a family of this size."""
    tail = (1 - CONFIDENCE) / max(family, 1)
    return student_quantile(1 - tail / 2, MANY), student_quantile(1 - tail, MANY)


def _layout(group: Sequence[Contrast], places: Places, arms: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the values, arms x rounds x 1, with 0 for gaps, and the mask of existing values."""
    listed = [(place, contrast.values) for place, contrast in zip(places, group, strict=True) if contrast.values]
    rounds = np.unique(np.concatenate([values.rounds for _, values in listed]))
    table = np.full((arms, rounds.size), np.nan)
    for (arm, base), values in listed:
        where = np.searchsorted(rounds, values.rounds)
        table[arm, where], table[base, where] = values.arm, values.base
    mask = np.isfinite(table)
    return np.where(mask, table, 0.0)[:, :, None], mask


@dataclass(frozen=True)
class _Quantiles:
    """Quantiles of a group, of a normal distribution; each comparison converts them to its own degrees of freedom."""

    alone: float  # of an individual 95 % interval
    together: float  # of the simultaneous 95 % interval
    lone: float  # of an individual interval for two one-sided tests
    bounded: float  # of the simultaneous interval for two one-sided tests
    median: float  # of the error, in units of the true one
    #: True errors by which a difference exceeds the median half-width if intervals exclude 0 with POWER.
    power: float


@lru_cache(maxsize=4096)
def _find_quantiles(
    places: Places,
    degrees: tuple[int, ...],
    arms: tuple[int, ...],
    moderated: bool,
    counted: tuple[bool, ...],
    level: float,
    widened: float,
) -> _Quantiles:
    """Return the quantiles for simultaneous intervals of the counted comparisons, which err with ``level`` /
    ``widened``. With a noisy arm they err with ``level`` * ``_MORE_ERRORS``, not widened: widened ones would be a
    third wider after 3 rounds. Not ``moderated``: each comparison has its own variance."""
    plain = _simulate(places, degrees, arms, moderated, None)
    noisy = [_simulate(places, degrees, arms, True, arm) for arm in (_FIRST, _EACH) if moderated]
    error, members = 1 - CONFIDENCE, sum(counted)
    alone, lone = (_individual(plain, noisy, share_, 1.0) for share_ in (error, 2 * error))
    together, bounded = alone, lone
    if members > 1:
        rows = np.flatnonzero(counted)
        together, bounded = (_simultaneous(plain, noisy, rows, share_, widened) for share_ in (level, 2 * level))
    elif members and level / widened < error:
        together, bounded = (_individual(plain, noisy, share_, widened) for share_ in (level, 2 * level))
    some = np.s_[:, : max(1, _BEYOND**2 // len(places))]
    half = _student_quantiles(max(together, alone), plain.freedom[some]) * plain.ratio[some]
    power = float(np.quantile(half - plain.away[some], POWER)) - float(np.median(half))
    return _Quantiles(alone, together, lone, bounded, float(np.median(plain.ratio)), power)


def _individual(plain: _Draws, noisy: Sequence[_Draws], level: float, widened: float) -> float:
    if not noisy:
        return _normal(level / widened)
    quantiles = (_tail(draws.z[draws.hit], _MORE_ERRORS * level) for draws in noisy)
    return max(_tail(plain.z, level / widened), *quantiles)


def _simultaneous(
    plain: _Draws, noisy: Sequence[_Draws], rows: NDArray[np.intp], level: float, widened: float
) -> float:
    levels = [(plain, level / widened), *((draws, _MORE_ERRORS * level) for draws in noisy)]
    return max(_tail(draws.z[rows].max(axis=0), share_, rows.size) for draws, share_ in levels)


def _tail(values: Floats, level: float, members: int = 1) -> float:
    """Return the quantile that is exceeded with this probability. See ``_BEYOND``."""
    least = _BEYOND / values.shape[-1]
    if level >= least:
        return float(np.quantile(values, 1 - level))
    return float(np.quantile(values, 1 - least)) * _normal(level / members) / _normal(least / members)


def _normal(level: float) -> float:
    return -_normal_quantile(level / 2)


def _normal_quantile(probability: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(probability))


def _student_quantiles(z: float | Floats, degrees: Floats) -> Floats:
    """Return the quantiles of Student's t with the probability of these of a normal distribution."""
    from scipy.special import ndtr, stdtrit

    quantiles: Floats = -np.asarray(stdtrit(degrees, ndtr(-z)), float)
    return quantiles


@dataclass(frozen=True, eq=False)
class _Draws:
    """Simulated comparisons x draws."""

    z: Floats  # absolute estimates, as quantiles of a normal distribution
    away: Floats  # estimates, in units of the true error
    ratio: Floats  # estimated errors, in units of the true error
    freedom: Floats  # degrees of freedom of the errors
    hit: NDArray[np.bool_]  # whether a comparison includes the noisy arm


@lru_cache(maxsize=16)
def _simulate(
    places: Places, degrees: tuple[int, ...], arms: tuple[int, ...], moderated: bool, noisy: int | None
) -> _Draws:
    """Simulate with normal noise and a truth of 0. ``noisy``: the arm that is ``_TIMES`` as noisy; None if arms differ
    by ``_DIFFER`` alone."""
    from scipy.special import ndtri, stdtr

    rng = np.random.default_rng(_SEED if noisy is None else (_SEED, noisy - _EACH))
    first, second = np.array(places).T
    count = int(max(first.max(), second.max())) + 1
    draws = min(_DRAWS, max(_LEAST_DRAWS, _MOST_VALUES // max(len(places), count))) // (1 if noisy is None else 2)
    noise = np.exp(rng.normal(0, _DIFFER, (count, draws))) if arms else np.ones((count, draws))
    which = np.full(draws, count if noisy is None else noisy)
    if noisy == _EACH:
        which = np.arange(draws) % count
    noise *= np.where(np.arange(count)[:, None] == which, _TIMES, 1.0)
    away = noise * rng.standard_normal((count, draws))
    true = np.hypot(noise[first], noise[second])
    freedom: Floats = np.array(degrees, float)[:, None]
    if arms:
        mask = np.arange(max(arms) + 1) <= np.array(arms)[:, None]
        values = rng.standard_normal((count, mask.shape[1], draws)) * noise[:, None, :] * mask[:, :, None]
        variance, freedom = of_comparisons(*moderate(arm_variances(values, mask), np.array(arms)), places)
    else:
        variance = true**2 * rng.chisquare(freedom, true.shape) / freedom
        if moderated:
            variance, freedom = lift(variance, np.array(degrees))
    error = np.sqrt(variance)
    estimate = away[first] - away[second]
    tails = stdtr(freedom, -np.abs(estimate) / error)
    z = -ndtri(np.maximum(tails, 1e-300))
    hit = (first[:, None] == which) | (second[:, None] == which)
    return _Draws(z, estimate / true, error / true, np.broadcast_to(freedom, true.shape), hit)


def rounds_needed(spread: float, borrowed: int, reach: float) -> int | None:
    """Return the least number of rounds whose 95 % interval has a margin of at most ``reach`` (of a logarithm). The
    margin is t(n) * spread / sqrt(n), ``spread`` being that of one round. None above 100,000."""
    low, high = 1, 2
    while not _reaches(high, spread, borrowed, reach):
        low, high = high, high * 2
        if high > _MOST_ROUNDS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _reaches(middle, spread, borrowed, reach) else (middle, high)
    return high


def _reaches(rounds: int, spread: float, borrowed: int, reach: float) -> bool:
    quantile = student_quantile(0.5 + CONFIDENCE / 2, own_degrees(rounds) + borrowed)
    return quantile * spread / math.sqrt(rounds) <= reach
