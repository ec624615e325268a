"""Noise that arms share: each comparison's interval from what all of them tell about the machine's noise. Pure.

A comparison alone has n - 1 degrees of freedom, and with 3 rounds its variance is right by a factor of 4 or so. But all
arms of a session ran on one machine, and where an arm takes about as long as its baseline, its noise is about the same.
So the variance of each is lifted to what they share where it lies below (docs/method.md: what was tried, and lost):

    shared = median over the arms of s² / (median of chi²[d] / d)
    s~² = max(s², (2 * shared + d * s²) / (2 + d))

An arm that is noisier keeps its own, and one that takes far more or less time is left out, which is told by its
estimate, of which the variance is independent. What the quantiles of (estimate - truth) / s~ are, alone and of the
largest over all arms, simulation tells: it knows of the arms that a baseline is common to (Dunnett 1955), which
Bonferroni's inequality does not.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kit.analysis.stats import CONFIDENCE, Centre, Floats, Interval, own_degrees, student_quantile

POWER = 0.80

#: An arm whose ratio lies no farther from 1 (a quarter, either way) has noise like the others'.
NEAR = 1.25
#: One farther off is taken to be so many times as noisy, as long as it has no more degrees of freedom of its own than
#: these; from then on its own variance is better.
_FAR_NOISE, _FEW = 3, 3
#: How many degrees of freedom the shared variance weighs.
BORROWED = 2
#: Sessions that are simulated; fewer where there are so many pairs that they would fill the memory.
_DRAWS, _LEAST_DRAWS, _MOST_VALUES = 20_000, 2_000, 4_000_000
_SEED = 20_261_121
#: Above so many degrees of freedom Student's t tells how quantiles go on.
_MOST = 20

Pair = tuple[Hashable, Hashable]
_Places = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Contrast:
    """The difference of two arms: its centre by its own values alone. ``alike``: its noise may be that of the others.
    ``counted``: it is one of those that have to hold all at once; a control is not."""

    pair: Pair
    centre: Centre
    alike: bool
    counted: bool = True


@dataclass(frozen=True)
class Shared(Centre):
    """A centre whose error is made of what all tell of the noise; Student's t with its degrees of freedom gives the
    95 % interval.

    ``together``: how many errors wide half an interval is that holds at once with all others of the family. ``seen``:
    how many errors large a difference is that such intervals leave 0 out for with 80 % power. ``spread``: of one block,
    as often too large as too small; None where n < 2.
    """

    together: float = 0.0
    seen: float = 0.0
    spread: float | None = None

    def interval_together(self) -> Interval:
        if self.error is None:
            return Interval(self.estimate, None, None, self.n)
        half = self.together * self.error
        return Interval(self.estimate, self.estimate - half, self.estimate + half, self.n)

    def detectable(self) -> float | None:
        """The smallest true value that is found different from 0 with 80 % power, by the interval that a verdict takes.
        None where n < 2."""
        return None if self.error is None else self.seen * self.error


def share(contrasts: Sequence[Contrast], family: int) -> list[Shared]:
    """The same centres with errors and degrees of freedom that make their 95 % intervals hold, alone and with all
    ``family`` comparisons that these belong to at once. In the order given."""
    found = [Shared(**vars(item.centre)) for item in contrasts]
    known = [i for i, item in enumerate(contrasts) if item.centre.error is not None]
    pooled = [i for i in known if contrasts[i].alike or contrasts[i].centre.degrees <= _FEW]
    if sum(contrasts[i].alike for i in pooled) < 2:
        pooled = []
    own = sorted(set(known) - set(pooled))
    for group, share_ in ((pooled, _share_pooled), (own, _share_own)):
        made = share_([contrasts[i] for i in group], family) if group else []
        for i, centre in zip(group, made, strict=True):
            found[i] = centre
    return found


def _share_pooled(group: Sequence[Contrast], family: int) -> list[Shared]:
    alike = tuple(item.alike for item in group)
    factors = _find_factors(*_structure(group, family), alike)
    n = np.array([item.centre.n for item in group])
    # An arm far off may be noisier by its nature: it is taken to be so, until it has runs enough to tell by itself.
    times = np.where(alike, 1, _FAR_NOISE)
    own = (np.array([item.centre.error for item in group]) / times) ** 2 * n  # the variance of one block
    degrees = np.array([item.centre.degrees for item in group])
    errors = times * np.sqrt(_lift(own, degrees, alike) / n)
    alone = times * np.sqrt(own / median_share(degrees))
    made = [
        _made(item.centre, float(error), factor, BORROWED)
        for item, error, factor in zip(group, errors, factors, strict=True)
    ]
    # What is taken of an arm far off is no estimate of its noise.
    return [
        one if item.alike else replace(one, spread=float(spread))
        for item, one, spread in zip(group, made, alone, strict=True)
    ]


def _share_own(group: Sequence[Contrast], family: int) -> list[Shared]:
    factors = _find_factors(*_structure(group, family), None)
    return [
        _made(item.centre, item.centre.error or 0.0, factor, 0) for item, factor in zip(group, factors, strict=True)
    ]


def _structure(group: Sequence[Contrast], family: int) -> tuple[_Places, tuple[int, ...], tuple[bool, ...], float]:
    """Which arms each pair is of, degrees of freedom, which count, and by how much they may all fail together."""
    numbers: dict[Hashable, int] = {}
    places = tuple(
        (numbers.setdefault(one, len(numbers)), numbers.setdefault(other, len(numbers)))
        for one, other in (item.pair for item in group)
    )
    counted = tuple(item.counted for item in group)
    level = (1 - CONFIDENCE) * max(sum(counted), 1) / max(family, 1)  # controls alone have their own
    return places, tuple(item.centre.degrees for item in group), counted, level


def _made(centre: Centre, error: float, factor: _Factors, borrowed: int) -> Shared:
    degrees = centre.degrees + borrowed
    # An error with which Student's t gives the interval of the quantile that was simulated.
    scale = factor.alone / student_quantile(0.5 + CONFIDENCE / 2, degrees)
    spread = error / factor.median * math.sqrt(centre.n)
    together, seen = factor.together / scale, factor.seen / scale
    return Shared(centre.estimate, error * scale, degrees, centre.n, together, seen, spread)


def _lift(own: Floats, degrees: NDArray[np.int64], alike: Sequence[bool]) -> Floats:
    """Variances, pairs last, lifted to what those that are alike share."""
    mine = np.array(alike)
    shared = _median(own[..., mine] / median_share(degrees[mine]))
    lifted: Floats = np.maximum(own, (BORROWED * shared + degrees * own) / (BORROWED + degrees))
    return lifted


def _median(values: Floats) -> Floats:
    """Of the last axis, which is kept, as np.median has it in several times the time where that is short."""
    ordered, n = np.sort(values, axis=-1), values.shape[-1]
    middle: Floats = (ordered[..., (n - 1) // 2, None] + ordered[..., n // 2, None]) / 2
    return middle


def median_share(degrees: NDArray[np.int64]) -> Floats:
    """The median of an estimated variance, as a share of the true one."""
    from scipy.special import chdtri

    share: Floats = chdtri(degrees, 0.5) / degrees
    return share


@dataclass(frozen=True)
class _Factors:
    """Of one pair, in units of its error: half the interval that holds with ``CONFIDENCE``; half of that which holds at
    once with the others'; the difference that is seen with ``POWER``. And the median of the error, in units of the true
    one."""

    alone: float
    together: float
    seen: float
    median: float


@lru_cache(maxsize=4096)
def _find_factors(
    places: _Places,
    degrees: tuple[int, ...],
    counted: tuple[bool, ...],
    level: float,
    alike: tuple[bool, ...] | None,
) -> tuple[_Factors, ...]:
    """The intervals of the counted pairs hold all at once but for ``level``. A pair not counted is alone."""
    small = tuple(min(d, _MOST) for d in degrees)
    away, error = _simulate(places, small, alike)
    ratios = np.abs(away) / error
    members = sum(counted)
    tail = level / max(members, 1) / 2  # Bonferroni's share of a pair: the scale on which few and many degrees compare
    more = 0 if alike is None else BORROWED
    usual = np.array([student_quantile(1 - tail, d + more) for d in small])
    which = np.flatnonzero(counted)
    factor = _quantile((ratios[:, which] / usual[which]).max(axis=1), 1 - level) if members > 1 else 1.0
    kinds: dict[Hashable, _Factors] = {}  # of pairs that are alike in all this rests on
    found = []
    for i, d in enumerate(small):
        kind = degrees[i], counted[i], alike is None or alike[i]
        if kind not in kinds:
            mine = [j for j, other in enumerate(small) if other == d and (alike is None or alike[j] == alike[i])]
            together = None
            if counted[i] and (members > 1 or level < 1 - CONFIDENCE):
                together = factor * float(usual[i])
                if members == 1 and alike is not None:
                    together = _quantile(ratios[:, mine], 1 - level)
            beyond = [student_quantile(p, degrees[i] + more) / student_quantile(p, d + more)
                      for p in (0.5 + CONFIDENCE / 2, 1 - tail)]  # fmt: skip
            own = None if alike is not None else student_quantile(0.5 + CONFIDENCE / 2, d)
            kinds[kind] = _read_off(away[:, mine], error[:, mine], own, together, beyond)
        found.append(kinds[kind])
    return tuple(found)


def _read_off(
    away: Floats, error: Floats, alone: float | None, together: float | None, beyond: Sequence[float]
) -> _Factors:
    """The factors of pairs that are alike. ``alone``: where it is known without simulation; ``together``: None for
    those that are alone; ``beyond``: how both go on above the most degrees of freedom that are simulated."""
    if alone is None:
        alone = _quantile(np.abs(away) / error, CONFIDENCE)
    wide = max(alone, together or 0.0)
    middle = float(np.median(error))
    seen = _quantile(wide * error - away, POWER) / middle
    return _Factors(alone * beyond[0], wide * beyond[1], seen, middle / math.sqrt(2))


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
def _simulate(places: _Places, degrees: tuple[int, ...], alike: tuple[bool, ...] | None) -> tuple[Floats, Floats]:
    """Differences, and their errors as ``share`` finds them, where all arms are the same and noise is normal, of
    variance 1: draws x pairs. Their true error is the root of 2."""
    rng = np.random.default_rng(_SEED)
    first, second = np.array(places).T
    arms = int(max(first.max(), second.max())) + 1
    draws = min(_DRAWS, max(_LEAST_DRAWS, _MOST_VALUES // len(places)))

    def draw() -> NDArray[np.float32]:
        values = np.ascontiguousarray(rng.standard_normal((draws, arms), dtype=np.float32).T)
        apart: NDArray[np.float32] = values[first] - values[second]
        return apart  # pairs x draws: what is done to a pair's is done to a row

    away = draw().astype(float)
    total, own = np.zeros_like(away), np.empty_like(away)  # sums in double precision
    for row in range(1, max(degrees) + 1):
        total += np.square(draw())
        mine = np.array(degrees) == row
        own[mine] = total[mine] / row
    return away.T, np.sqrt(own.T if alike is None else _lift(own.T, np.array(degrees), alike))


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
