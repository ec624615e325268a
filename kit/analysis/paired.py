"""Runs of two arms in the blocks that hold both, and what explains part of their noise. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kit.analysis import pool, stats
from kit.analysis.columns import Key, Runs
from kit.analysis.stats import Centre, Covariate, Floats
from kit.model.metric import OWN, SPEED, described

#: What is tried as covariate, on a logarithmic scale: the spins before and after a run (of arithmetic and of memory),
#: and CPU stolen during it. None of them can be an effect of the arm.
COVARIATES = ("calibration", "memory", "steal")
#: Of runs by turns: the standard deviation of the log ratio of two copies of the same files that may be left over all
#: blocks of a session though they are read anew before each (docs/method.md). Whole runs hide it in their noise.
COPIES = 0.006
#: What intervals of runs by turns reach at least, as a share of the ratio, however many rounds.
LEAST_REACH = math.expm1(1.97 * COPIES)
_BLOCKS = 10_000  # as many as a covariate is judged by


@dataclass(frozen=True)
class Adjusting:
    """A covariate in use."""

    name: str
    covariate: Covariate


@dataclass(frozen=True)
class Paired:
    """One metric in the runs of an arm and of what it is compared with, round by round. ``covariates``: of both, where
    one is in use. ``rounds``: their numbers, empty where they are unknown. ``copies``: standard deviation of the
    logarithm of what their copies of the same files may differ by."""

    arm: Key
    base: Key
    metric: str
    one: Floats
    other: Floats
    adjusting: Adjusting | None
    covariates: tuple[Floats, Floats] | None
    copies: float = 0.0
    rounds: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def covariate(self) -> str:
        return self.adjusting.name if self.adjusting else ""

    @cached_property
    def away(self) -> Floats | None:
        """By how much the covariate differed between the two."""
        return None if self.covariates is None else self.covariates[0] - self.covariates[1]

    @cached_property
    def positive(self) -> bool:
        return bool((self.one > 0).all() and (self.other > 0).all())

    @cached_property
    def logs(self) -> Floats:
        logs: Floats = np.log(self.one / self.other)
        return logs

    def difference(self, counted: bool = True) -> pool.Contrast:
        """In the metric's unit."""
        scale = float(self.one.mean()), float(self.other.mean())
        return self._contrast(stats.mean_centre(self.one - self.other), counted, self._values(scale, False))

    def ratio(self, counted: bool = True, adjusted: bool = True) -> pool.Contrast:
        """Of logarithms, adjusted where a covariate is in use."""
        if adjusted and self.adjusting and self.away is not None:
            centre = self.adjusting.covariate.centre(self.logs, self.away)
        else:
            centre = stats.robust_centre(self.logs)
        return self._contrast(centre, counted, self._values((1.0, 1.0), adjusted))

    def _values(self, scale: tuple[float, float], adjusted: bool) -> pool.Values | None:
        if not self.positive or not self.rounds.size:
            return None
        logs = np.log(self.one), np.log(self.other)
        if adjusted and self.adjusting and self.covariates is not None:
            slope = self.adjusting.covariate.slope
            logs = logs[0] - slope * self.covariates[0], logs[1] - slope * self.covariates[1]
        return pool.Values(self.rounds, *logs, scale)

    def widen(self, centre: pool.Shared) -> pool.Shared:
        """The adjusted ratio's, with the error of the adjustment, and that of copies, which no block tells of."""
        if self.adjusting is not None and self.away is not None:
            centre = self.adjusting.covariate.widen(centre, self.away)
        return self.with_copies(centre)

    def with_copies(self, centre: pool.Shared) -> pool.Shared:
        """The ratio's."""
        return with_error(centre, self.copies)

    def widen_difference(self, centre: pool.Shared) -> pool.Shared:
        return with_error(centre, self.copies * float(self.other.mean()))

    def adjusted(self) -> float | None:
        """The arm's mean, had the covariate been in its runs what it was in the other's; None without a covariate."""
        return None if self._moved is None else float((self.one * np.exp(-self._moved)).mean())

    def untrimmed(self) -> float | None:
        """The ratio by the mean of all blocks, where the typical one leaves some out."""
        if self.one.size < stats.ROBUST_FROM:
            return None
        return stats.exp(float(self.logs.mean() - (0.0 if self._moved is None else self._moved.mean())))

    @property
    def _moved(self) -> Floats | None:
        if self.adjusting is None or self.away is None:
            return None
        moved: Floats = self.adjusting.covariate.slope * self.away
        return moved

    def _contrast(self, centre: Centre, counted: bool, values: pool.Values | None) -> pool.Contrast:
        return pool.Contrast((self.arm, self.base), centre, described(self.metric).noise != OWN, counted, values)


def pair_up(
    runs: Runs, keys: tuple[Key, Key], phase: str, metric: str, adjusting: Adjusting | None = None
) -> Paired | None:
    """None where no block holds a figure of both."""
    ours, theirs = runs.common(keys)
    one, other = runs.values(keys[0], phase, metric)[ours], runs.values(keys[1], phase, metric)[theirs]
    both = np.isfinite(one) & np.isfinite(other)
    if not both.any():
        return None
    covariates = None
    if adjusting is not None:
        mine, base = (_covariate(runs, key, adjusting.name) for key in keys)
        covariates = mine[ours][both], base[theirs][both]
        if not np.isfinite(covariates).all():
            adjusting, covariates = None, None
    copies = COPIES if described(metric).noise != OWN and runs.interleaved(keys[0]) else 0.0
    return Paired(
        *keys, metric, one[both], other[both], adjusting, covariates, copies, runs.blocks(keys[0])[ours][both]
    )


def with_error(centre: pool.Shared, known: float) -> pool.Shared:
    """With an error more, which is known as of many degrees of freedom and the same at every look."""
    if centre.error is None or not known:
        return centre
    many, few = (stats.student_quantile(0.5 + stats.CONFIDENCE / 2, degrees) for degrees in (pool.MANY, centre.degrees))
    error = math.hypot(centre.error, known * many / few)
    together, bounded = (
        math.hypot(factor * centre.error, lasting * known) / error
        for factor, lasting in zip((centre.together, centre.bounded), centre.lasting, strict=True)
    )
    return replace(centre, error=error, together=together, bounded=bounded)


def find_adjusting(runs: Runs, keys: Sequence[Key], phase: str, metric: str) -> Adjusting | None:
    """The covariate that explains most of the noise of these arms, if one is of use."""
    if described(metric).noise != SPEED or len(keys) < 2:
        return None
    places = _some(runs.common(keys))
    y = np.array([runs.values(key, phase, metric)[place] for key, place in zip(keys, places, strict=True)]).T
    if y.shape[0] < stats.COVARIATE_BLOCKS or not (np.isfinite(y) & (y > 0)).all():
        return None
    y = stats.residuals(np.log(y))
    best: Adjusting | None = None
    for name in COVARIATES:
        x = runs.once(_covariate_residuals, runs, tuple(keys), name)
        found = stats.find_covariate(y, x) if np.isfinite(x).all() else None
        if found and (best is None or found.variance_left < best.covariate.variance_left):
            best = Adjusting(name, found)
    return best


def _some(places: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Every k-th block of very many: a slope needs no more, and a million samples are to be no burden."""
    step = max(1, places[0].size // _BLOCKS)
    return [place[::step] for place in places]


def _covariate_residuals(runs: Runs, keys: Sequence[Key], name: str) -> Floats:
    places = _some(runs.common(keys))
    x = [_covariate(runs, key, name)[place] for key, place in zip(keys, places, strict=True)]
    return stats.residuals(np.array(x).T)


def _covariate(runs: Runs, key: Key, name: str) -> Floats:
    if name == "steal":
        phase = runs.phases([key])[-1]
        share: Floats = np.log1p(runs.values(key, phase, "steal") / runs.values(key, phase, "real"))
        return share
    spins = np.log(runs.attribute(key, f"{name}_before")) + np.log(runs.attribute(key, f"{name}_after"))
    half: Floats = spins / 2
    return half
