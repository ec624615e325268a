"""Runs of two arms in the rounds that contain both, and covariates that explain part of their noise. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kit.analysis.runs.run_table import Key, Runs
from kit.analysis.stats import estimators, variance_pooling
from kit.analysis.stats.estimate import exp
from kit.analysis.stats.estimators import Centre, Covariate, Floats
from kit.model.metric import OWN, SPEED, described

#: Candidates for a covariate, on a logarithmic scale: spins before and after a run (of arithmetic and of memory), and
#: CPU stolen during the run. No arm can affect them.
COVARIATES = ("calibration", "memory", "steal")
#: For interleaved runs: the standard deviation of the log ratio of two copies of the same files. This difference may
#: last for all rounds of a session, although copies are refreshed before each round. Sequential runs hide it in their
#: noise (docs/explanation/method.md).
COPIES = 0.006
#: The least margin of intervals of interleaved runs, as a share of the ratio, for any number of rounds.
LEAST_REACH = math.expm1(1.97 * COPIES)
_BLOCKS = 10_000  # as many as a covariate is judged by


@dataclass(frozen=True)
class Adjusting:
    """A covariate in use."""

    name: str
    covariate: Covariate


@dataclass(frozen=True)
class Paired:
    """One metric of an arm and its baseline, round by round. ``covariates``: of both, if one is in use. ``rounds``:
    their numbers, empty if unknown. ``copies``: standard deviation of the log ratio between copies of the same files.
    """

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
        """Return the covariate's difference between the two."""
        return None if self.covariates is None else self.covariates[0] - self.covariates[1]

    @cached_property
    def positive(self) -> bool:
        return bool((self.one > 0).all() and (self.other > 0).all())

    @cached_property
    def logs(self) -> Floats:
        logs: Floats = np.log(self.one / self.other)
        return logs

    def difference(self, counted: bool = True, proportional: bool = True) -> variance_pooling.Contrast:
        """Return the difference in the metric's unit. ``proportional``: noise grows with the figures.

        It is the mean of all rounds, however many there are: seconds add up. The variances of arms are trimmed from
        ROBUST_FROM rounds on, so it then has its own."""
        scale = (float(self.one.mean()), float(self.other.mean())) if proportional else (1.0, 1.0)
        values = None if self.one.size >= estimators.ROBUST_FROM else self._values(False)
        return self._contrast(estimators.mean_centre(self.one - self.other), counted, values, scale)

    def ratio(self, counted: bool = True, adjusted: bool = True) -> variance_pooling.Contrast:
        """Return the centre of the log ratio, adjusted if a covariate is in use."""
        if adjusted and self.adjusting and self.away is not None:
            centre = self.adjusting.covariate.centre(self.logs, self.away)
        else:
            centre = estimators.robust_centre(self.logs)
        return self._contrast(centre, counted, self._values(adjusted), (1.0, 1.0))

    def _values(self, adjusted: bool) -> variance_pooling.Values | None:
        if not self.positive or not self.rounds.size:
            return None
        logs = np.log(self.one), np.log(self.other)
        if adjusted and self.adjusting and self.covariates is not None:
            slope = self.adjusting.covariate.slope
            logs = logs[0] - slope * self.covariates[0], logs[1] - slope * self.covariates[1]
        return variance_pooling.Values(self.rounds, *logs)

    def widen(self, centre: variance_pooling.PooledEstimate) -> variance_pooling.PooledEstimate:
        """Add the errors of the adjustment and of copies to the ratio's error. Rounds do not show copies' error."""
        if self.adjusting is not None and self.away is not None:
            centre = self.adjusting.covariate.widen(centre, self.away)
        return self.with_copies(centre)

    def with_copies(self, centre: variance_pooling.PooledEstimate) -> variance_pooling.PooledEstimate:
        """Add the error of copies to the ratio's error."""
        return with_error(centre, self.copies)

    def widen_difference(self, centre: variance_pooling.PooledEstimate) -> variance_pooling.PooledEstimate:
        return with_error(centre, self.copies * float(self.other.mean()))

    def adjusted(self) -> float | None:
        """Return the arm's mean, adjusted to the other arm's covariate; None without a covariate."""
        return None if self._moved is None else float((self.one * np.exp(-self._moved)).mean())

    def untrimmed(self) -> float | None:
        """Return the ratio by the mean of all rounds, if the typical ratio leaves some out."""
        if self.one.size < estimators.ROBUST_FROM:
            return None
        return exp(float(self.logs.mean() - (0.0 if self._moved is None else self._moved.mean())))

    @property
    def _moved(self) -> Floats | None:
        if self.adjusting is None or self.away is None:
            return None
        moved: Floats = self.adjusting.covariate.slope * self.away
        return moved

    def _contrast(
        self, centre: Centre, counted: bool, values: variance_pooling.Values | None, scale: tuple[float, float]
    ) -> variance_pooling.Contrast:
        return variance_pooling.Contrast(
            (self.arm, self.base), centre, described(self.metric).noise != OWN, counted, values, scale
        )


@dataclass(frozen=True)
class Unpaired(Paired):
    """One metric of an arm and its baseline as two independent samples, not always of one size (Welch 1947).

    The ratio is that of the means of all runs, which readers compute as well: nothing pairs two runs."""

    def difference(self, counted: bool = True, proportional: bool = True) -> variance_pooling.Contrast:
        return self._welch(estimators.mean_centre(self.other), estimators.mean_centre(self.one), counted)

    def ratio(self, counted: bool = True, adjusted: bool = True) -> variance_pooling.Contrast:
        return self._welch(estimators.log_mean_centre(self.other), estimators.log_mean_centre(self.one), counted)

    def untrimmed(self) -> float | None:
        return None

    def _welch(self, other: Centre, one: Centre, counted: bool) -> variance_pooling.Contrast:
        """Each arm has a variance of its own: numbers of runs differ, and so may the machines."""
        centre = estimators.welch_centre(other, one)
        freedom = estimators.welch_degrees(other, one)
        return variance_pooling.Contrast((self.arm, self.base), centre, False, counted, freedom=freedom)


def pair_up(
    runs: Runs, keys: tuple[Key, Key], phase: str, metric: str, adjusting: Adjusting | None = None
) -> Paired | None:
    """Return the pairs of rounds; None if no round contains a figure of both. Of unpaired runs, all of either."""
    if runs.unpaired:
        one, other = (runs.values(key, phase, metric) for key in keys)
        one, other = one[np.isfinite(one)], other[np.isfinite(other)]
        return Unpaired(*keys, metric, one, other, None, None) if one.size and other.size else None
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
        *keys, metric, one[both], other[both], adjusting, covariates, copies, runs.rounds(keys[0])[ours][both]
    )


def with_error(centre: variance_pooling.PooledEstimate, known: float) -> variance_pooling.PooledEstimate:
    """Add a ``known`` error (of many degrees of freedom) that is the same at every look."""
    if centre.error is None or not known:
        return centre
    many, few = (
        estimators.student_quantile(0.5 + estimators.CONFIDENCE / 2, degrees)
        for degrees in (variance_pooling.MANY, centre.degrees)
    )
    error = math.hypot(centre.error, known * many / few)
    together, bounded = (
        math.hypot(factor * centre.error, lasting * known) / error
        for factor, lasting in zip((centre.together, centre.bounded), centre.lasting, strict=True)
    )
    return replace(centre, error=error, together=together, bounded=bounded)


def find_adjusting(runs: Runs, keys: Sequence[Key], phase: str, metric: str) -> Adjusting | None:
    """Return the covariate that explains most of these arms' noise, or None if none helps."""
    if described(metric).noise != SPEED or len(keys) < 2 or runs.unpaired:
        return None
    places = _some(runs.common(keys))
    y = np.array([runs.values(key, phase, metric)[place] for key, place in zip(keys, places, strict=True)]).T
    if y.shape[0] < estimators.COVARIATE_ROUNDS or not (np.isfinite(y) & (y > 0)).all():
        return None
    y = estimators.residuals(np.log(y))
    best: Adjusting | None = None
    for name in COVARIATES:
        x = runs.once(_covariate_residuals, runs, tuple(keys), name)
        found = estimators.find_covariate(y, x) if np.isfinite(x).all() else None
        if found and (best is None or found.variance_left < best.covariate.variance_left):
            best = Adjusting(name, found)
    return best


def _some(places: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Return every k-th round of a long session: a slope needs no more, and a million samples take too long."""
    step = max(1, places[0].size // _BLOCKS)
    return [place[::step] for place in places]


def _covariate_residuals(runs: Runs, keys: Sequence[Key], name: str) -> Floats:
    places = _some(runs.common(keys))
    x = [_covariate(runs, key, name)[place] for key, place in zip(keys, places, strict=True)]
    return estimators.residuals(np.array(x).T)


def _covariate(runs: Runs, key: Key, name: str) -> Floats:
    if name == "steal":
        phase = runs.phases([key])[-1]
        share: Floats = np.log1p(runs.values(key, phase, "steal") / runs.values(key, phase, "real"))
        return share
    spins = np.log(runs.attribute(key, f"{name}_before")) + np.log(runs.attribute(key, f"{name}_after"))
    half: Floats = spins / 2
    return half
