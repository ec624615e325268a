"""Variance of each comparison, moderated by the variances of all arms of a session. Pure.

A comparison alone has n - 1 degrees of freedom, and with 3 rounds its variance is right by a factor of 4 or so. All
arms of a session ran on one machine, and most have about the same noise on the logarithmic scale. Some are noisier. So
the variances are moderated as in limma (Smyth 2004, doi:10.2202/1544-6115.1027; robust: Phipson et al. 2016,
doi:10.1214/16-AOAS920), by a prior of two parts:

1. Each arm's variance comes from its residuals in a rounds x arms layout whose arms are weighted by their precision.
2. With probability 0.7 an arm's variance is about the session's, which is unknown; else it may be anything.
3. The posterior of each logarithm of a variance, on a grid, gives its mean and variance. The scaled inverse chi² with
   the same two gives the moderated variance and its degrees of freedom: many where arms agree, few for a noisy arm.
4. A comparison has the sum of its arms' variances, with Satterthwaite's degrees of freedom (1946).

The very procedure is simulated to find the quantiles, individual and of the largest error of a family, which takes the
common baseline into account (Dunnett 1955). The simulated arms differ in noise by ``_DIFFER``, as those of a real
session do. Comparisons without values of arms (steps of a ladder, growth, stacks) have their own variances, lifted
where they lie below what all of them share. A comparison whose noise is not that of the others has its own alone.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kit.analysis.arm_variance import Places, arm_variances, lift, moderate, of_comparisons
from kit.analysis.stats import (
    CONFIDENCE,
    Centre,
    Floats,
    Interval,
    own_degrees,
    student_quantile,
)

POWER = 0.80

#: Standard deviation of the logarithm of standard deviations of the arms that are simulated.
_DIFFER = 0.35
#: Sessions that are simulated; fewer where there are so many pairs that they would fill the memory.
_DRAWS, _LEAST_DRAWS, _MOST_VALUES = 12_000, 2_000, 600_000
_SEED = 20_261_121
#: Degrees of freedom of an error that is known.
MANY = 1_000
#: Above so many degrees of freedom all quantiles are as good as these.
_MOST = 20
#: Without values of arms: how many times as noisy a comparison is taken to be that is not like the others, as long as
#: it has no more degrees of freedom of its own than these.
_FAR_NOISE, _FEW = 3, 3
#: A ratio no farther from 1 (a quarter, either way) has noise like the others'.
NEAR = 1.25
#: A quantile beyond which so many draws lie is simulated; farther out it goes on as the normal distribution does.
_BEYOND = 50

Pair = tuple[Hashable, Hashable]


@dataclass(frozen=True, eq=False)
class Values:
    """Logarithms of two arms in the ``rounds`` that hold both. ``scale``: what the comparison changes by with either,
    (1, 1) for the difference of logarithms."""

    rounds: NDArray[np.int64]
    one: Floats
    other: Floats
    scale: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True)
class Contrast:
    """The difference of two arms: its centre by its own values alone. ``alike``: its noise may be that of the others.
    ``counted``: it belongs to the family; a control does not. ``values``: None where only the centre is known."""

    pair: Pair
    centre: Centre
    alike: bool
    counted: bool = True
    values: Values | None = None


@dataclass(frozen=True)
class Shared(Centre):
    """A centre whose error is made of what all tell of the noise; Student's t with its degrees of freedom gives the
    95 % interval. The degrees are never fewer than the comparison's own.

    ``together``: how many errors wide half an interval is that holds at once with all others of the family. ``seen``:
    how many errors large a difference is that such intervals leave 0 out for with 80 % power. ``spread``: of one block,
    as often too large as too small; None where n < 2. ``bounded``: half the width, in errors, of the interval for two
    one-sided tests of the same family: it errs twice as often, but on either side as often as ``together`` on both.
    ``lasting``: what ``together`` and ``bounded`` are for an error that is known and the same at every look, which
    takes no widening.
    """

    together: float = 0.0
    seen: float = 0.0
    spread: float | None = None
    bounded: float = 0.0
    lasting: tuple[float, float] = (0.0, 0.0)

    def interval_together(self) -> Interval:
        return self._interval(self.together)

    def interval_bounded(self) -> Interval:
        """Return the simultaneous 90 % interval: what lies within its ends is equivalent by two one-sided 5 % tests
        (Schuirmann 1987)."""
        return self._interval(self.bounded)

    def _interval(self, errors: float) -> Interval:
        if self.error is None:
            return Interval(self.estimate, None, None, self.n)
        half = errors * self.error
        return Interval(self.estimate, self.estimate - half, self.estimate + half, self.n)

    def detectable(self) -> float | None:
        """The smallest true value that is found different from 0 with 80 % power, by the interval that a verdict takes.
        None where n < 2."""
        return None if self.error is None else self.seen * self.error


def share(contrasts: Sequence[Contrast], family: int, widening: float = 1.0) -> list[Shared]:
    """Return the centres, in the order given, with errors and degrees of freedom that make their 95 % intervals hold:
    individually, and simultaneously with all ``family`` comparisons that these belong to.

    ``widening``: of a session that chose its own end (kit.analysis.stopping)."""
    found = [Shared(**vars(item.centre)) for item in contrasts]
    known = [i for i, item in enumerate(contrasts) if item.centre.error is not None]
    alike = [i for i in known if contrasts[i].alike or contrasts[i].centre.degrees <= _FEW]
    if sum(contrasts[i].alike for i in alike) < 2:
        alike = []
    joint = alike if all(contrasts[i].values for i in alike) else []
    groups = (joint, True), (sorted(set(alike) - set(joint)), True), (sorted(set(known) - set(alike)), False)
    for group, moderated in groups:
        made = _share([contrasts[i] for i in group], family * widening, moderated, bool(joint)) if group else []
        for i, centre in zip(group, made, strict=True):
            tail = (1 - CONFIDENCE) / (max(family, 1) if contrasts[i].counted else 1)
            lasting = student_quantile(1 - tail / 2, MANY), student_quantile(1 - tail, MANY)
            found[i] = replace(centre, lasting=lasting)
    return found


def _share(group: Sequence[Contrast], family: float, moderated: bool, joint: bool) -> list[Shared]:
    numbers: dict[Hashable, int] = {}
    places = tuple(
        (numbers.setdefault(one, len(numbers)), numbers.setdefault(other, len(numbers)))
        for one, other in (item.pair for item in group)
    )
    counted, alike = tuple(item.counted for item in group), tuple(item.alike for item in group)
    level = (1 - CONFIDENCE) * max(sum(counted), 1) / max(family, 1)  # controls alone have their own
    n = np.array([item.centre.n for item in group])
    own = np.array([item.centre.degrees for item in group])
    arms: tuple[int, ...] = ()
    errors, degrees = np.array([item.centre.error or 0.0 for item in group]), own.astype(float)
    if moderated and joint:
        values, mask = _layout(group, places, len(numbers))
        arms = tuple(own_degrees(int(rounds)) for rounds in mask.sum(axis=1))
        found = moderate(arm_variances(values, mask, trimmed=True), np.array(arms))
        variance, degrees = of_comparisons(*found, places, [_scale(item) for item in group])
        errors, degrees = np.sqrt(variance[:, 0] / n), degrees[:, 0]
    elif moderated:
        # A comparison far off may be noisier by its nature: it is taken to be so, until it has runs enough.
        times = np.where(alike, 1, _FAR_NOISE)
        variance, degrees = (found[:, 0] for found in lift(((errors / times) ** 2 * n)[:, None], own, alike))
        errors = times * np.sqrt(variance / n)
    few = tuple(min(int(d), _MOST) for d in own)
    small = tuple(min(d, _MOST) for d in arms)
    quantiles = _find_quantiles(places, few, small, alike if moderated else (), counted, level)
    return [
        _made(item, float(error), float(freedom), quantiles)
        for item, error, freedom in zip(group, errors, degrees, strict=True)
    ]


def _scale(item: Contrast) -> tuple[float, float]:
    return item.values.scale if item.values else (1.0, 1.0)


def _made(item: Contrast, error: float, freedom: float, quantiles: _Quantiles) -> Shared:
    centre = item.centre
    degrees = max(round(freedom), centre.degrees)
    family = (quantiles.together, quantiles.bounded) if item.counted else (quantiles.alone, quantiles.lone)
    alone, together, bounded = (_student(z, freedom) for z in (quantiles.alone, *family))
    # An error with which Student's t with whole degrees of freedom gives the individual interval.
    scale = alone / student_quantile(0.5 + CONFIDENCE / 2, degrees)
    half = max(together, alone)
    seen = half + quantiles.power / quantiles.median
    spread = error / quantiles.median * math.sqrt(centre.n)
    return Shared(
        centre.estimate, error * scale, degrees, centre.n, half / scale, seen / scale, spread, bounded / scale
    )


def _layout(group: Sequence[Contrast], places: Places, arms: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Arms x rounds x 1, and where there is a value."""
    listed = [(place, item.values) for place, item in zip(places, group, strict=True) if item.values]
    rounds = np.unique(np.concatenate([values.rounds for _, values in listed]))
    table = np.full((arms, rounds.size), np.nan)
    for (one, other), values in listed:
        where = np.searchsorted(rounds, values.rounds)
        table[one, where], table[other, where] = values.one, values.other
    mask = np.isfinite(table)
    return np.where(mask, table, 0.0)[:, :, None], mask


@dataclass(frozen=True)
class _Quantiles:
    """Of a group, as quantiles of a normal distribution that each comparison takes to its own degrees of freedom:
    ``alone`` and ``together`` of 95 % intervals, ``lone`` and ``bounded`` of those of two one-sided tests. ``median``:
    of the error, in units of the true one. ``power``: by how many true errors a difference exceeds the median half
    interval where such intervals leave 0 out with ``POWER``."""

    alone: float
    together: float
    lone: float
    bounded: float
    median: float
    power: float


@lru_cache(maxsize=4096)
def _find_quantiles(
    places: Places,
    degrees: tuple[int, ...],
    arms: tuple[int, ...],
    alike: tuple[bool, ...],
    counted: tuple[bool, ...],
    level: float,
) -> _Quantiles:
    """The intervals of the counted comparisons hold simultaneously but for ``level``. ``alike``: none where each
    comparison has its own variance."""
    moderated = bool(alike)
    z, away, ratio, freedom = _simulate(places, degrees, arms, alike)
    error = 1 - CONFIDENCE
    alone, lone = (_tail(z, share_) if moderated else _normal(share_) for share_ in (error, 2 * error))
    together, bounded = alone, lone
    members = sum(counted)
    if members > 1:
        largest = z[np.flatnonzero(counted)].max(axis=0)
        together, bounded = (_tail(largest, share_, members) for share_ in (level, 2 * level))
    elif members and level < error:
        together, bounded = (_tail(z, share_) if moderated else _normal(share_) for share_ in (level, 2 * level))
    some = np.s_[:, : max(1, _BEYOND**2 // len(places))]
    half = _student_quantiles(max(together, alone), freedom[some]) * ratio[some]
    power = _quantile(half - away[some], POWER) - float(np.median(half))
    return _Quantiles(alone, together, lone, bounded, float(np.median(ratio)), power)


def _tail(values: Floats, level: float, members: int = 1) -> float:
    """The quantile that is exceeded with this probability. See ``_BEYOND``."""
    least = _BEYOND / values.shape[-1]
    if level >= least:
        return _quantile(values, 1 - level)
    return _quantile(values, 1 - least) * _normal(level / members) / _normal(least / members)


def _normal(level: float) -> float:
    return -_normal_quantile(level / 2)


def _normal_quantile(probability: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(probability))


def _student(z: float, degrees: float) -> float:
    return float(_student_quantiles(z, np.array(degrees)))


def _student_quantiles(z: float, degrees: Floats) -> Floats:
    """The quantiles of Student's t with the probability of this one of a normal distribution."""
    from scipy.special import ndtr, stdtrit

    found: Floats = -np.asarray(stdtrit(degrees, ndtr(-z)), float)
    return found


def _quantile(values: Floats, probability: float) -> float:
    """What np.quantile finds, to the last bit, in half its time: of millions of values, none of them NaN."""
    place = (values.size - 1) * probability
    low = math.floor(place)
    high = min(low + 1, values.size - 1)
    ordered = np.partition(values.ravel(order="K"), [low, high])
    below, above, share_ = float(ordered[low]), float(ordered[high]), place - low
    step = above - below
    return above - step * (1 - share_) if share_ >= 0.5 else below + step * share_


@lru_cache(maxsize=8)
def _simulate(
    places: Places, degrees: tuple[int, ...], arms: tuple[int, ...], alike: tuple[bool, ...]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Where noise is normal and the truth is 0, comparisons x draws: absolute estimates as quantiles of a normal
    distribution; estimates and their errors, in units of the true error; degrees of freedom. See ``_DIFFER``."""
    from scipy.special import ndtri, stdtr

    rng = np.random.default_rng(_SEED)
    first, second = np.array(places).T
    count = int(max(first.max(), second.max())) + 1
    draws = min(_DRAWS, max(_LEAST_DRAWS, _MOST_VALUES // max(len(places), count)))
    noise = np.exp(rng.normal(0, _DIFFER, (count, draws))) if arms else np.ones((count, draws))
    away = noise * rng.standard_normal((count, draws))
    true = np.hypot(noise[first], noise[second])
    freedom: Floats = np.array(degrees, float)[:, None]
    if arms:
        mask = np.arange(max(arms) + 1) <= np.array(arms)[:, None]
        values = rng.standard_normal((count, mask.shape[1], draws)) * noise[:, None, :] * mask[:, :, None]
        variance, freedom = of_comparisons(*moderate(arm_variances(values, mask), np.array(arms)), places)
    else:
        variance = true**2 * rng.chisquare(freedom, true.shape) / freedom
        if alike:
            variance, freedom = lift(variance, np.array(degrees), alike)
    error = np.sqrt(variance)
    estimate = away[first] - away[second]
    tails = stdtr(freedom, -np.abs(estimate) / error)
    return -ndtri(np.maximum(tails, 1e-300)), estimate / true, error / true, np.broadcast_to(freedom, true.shape)


def near(log_ratio: float) -> bool:
    return abs(log_ratio) <= math.log(NEAR)


def rounds_needed(spread: float, borrowed: int, reach: float, most: int = 100_000) -> int | None:
    """The least number of rounds with which a 95 % interval reaches no farther than ``reach`` (of a logarithm) from
    its estimate: t(n) * spread / sqrt(n), ``spread`` being that of one round. None above ``most``."""
    low, high = 1, 2
    while not _reaches(high, spread, borrowed, reach):
        low, high = high, high * 2
        if high > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _reaches(middle, spread, borrowed, reach) else (middle, high)
    return high


def _reaches(rounds: int, spread: float, borrowed: int, reach: float) -> bool:
    quantile = student_quantile(0.5 + CONFIDENCE / 2, own_degrees(rounds) + borrowed)
    return quantile * spread / math.sqrt(rounds) <= reach
