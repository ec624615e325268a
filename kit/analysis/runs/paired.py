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
#: Share of the rounds that an arm was in, above which it has not dropped out.
_LASTING = 0.8


@dataclass(frozen=True)
class Adjusting:
    """A covariate in use."""

    name: str
    covariate: Covariate


@dataclass(frozen=True)
class Paired:
    """One metric of an arm and its baseline, round by round."""

    arm: Key
    base: Key
    metric: str
    arm_values: Floats
    base_values: Floats
    adjusting: Adjusting | None
    covariates: tuple[Floats, Floats] | None  # of the arm and of its baseline, if one is in use
    copies: float = 0.0  # standard deviation of the log ratio between copies of the same files
    #: Their numbers; empty if unknown.
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
        return bool((self.arm_values > 0).all() and (self.base_values > 0).all())

    @cached_property
    def logs(self) -> Floats:
        logs: Floats = np.log(self.arm_values / self.base_values)
        return logs

    def difference(self, counted: bool = True, proportional: bool = True) -> variance_pooling.Contrast:
        """Return the difference in the metric's unit. ``proportional``: noise grows with the figures.

        It is the mean of all rounds, however many there are: seconds add up. The variances of arms are trimmed from
        ROBUST_FROM rounds on, so it then has its own."""
        scale = (float(self.arm_values.mean()), float(self.base_values.mean())) if proportional else (1.0, 1.0)
        values = None if self.arm_values.size >= estimators.ROBUST_FROM else self._values(False)
        return self._contrast(estimators.mean_centre(self.arm_values - self.base_values), counted, values, scale)

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
        logs = np.log(self.arm_values), np.log(self.base_values)
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
        return with_error(centre, self.copies * float(self.base_values.mean()))

    def adjusted(self) -> float | None:
        """Return the arm's mean, adjusted to the other arm's covariate; None without a covariate."""
        return None if self._moved is None else float((self.arm_values * np.exp(-self._moved)).mean())

    def untrimmed(self) -> float | None:
        """Return the ratio by the mean of all rounds, if the typical ratio leaves some out."""
        if self.arm_values.size < estimators.ROBUST_FROM:
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
        return self._welch(estimators.mean_centre(self.base_values), estimators.mean_centre(self.arm_values), counted)

    def ratio(self, counted: bool = True, adjusted: bool = True) -> variance_pooling.Contrast:
        return self._welch(
            estimators.log_mean_centre(self.base_values), estimators.log_mean_centre(self.arm_values), counted
        )

    def untrimmed(self) -> float | None:
        return None

    def _welch(self, base: Centre, arm: Centre, counted: bool) -> variance_pooling.Contrast:
        """Each arm has a variance of its own: numbers of runs differ, and so may the machines."""
        centre = estimators.welch_centre(base, arm)
        freedom = estimators.welch_degrees(base, arm)
        return variance_pooling.Contrast((self.arm, self.base), centre, False, counted, freedom=freedom)


def pair_up(
    runs: Runs, keys: tuple[Key, Key], phase: str, metric: str, adjusting: Adjusting | None = None
) -> Paired | None:
    """Return the pairs of rounds; None if no round contains a figure of both. Of unpaired runs, all of either."""
    if runs.unpaired:
        arm_values, base_values = (runs.values(key, phase, metric) for key in keys)
        arm_values, base_values = arm_values[np.isfinite(arm_values)], base_values[np.isfinite(base_values)]
        return (
            Unpaired(*keys, metric, arm_values, base_values, None, None)
            if arm_values.size and base_values.size
            else None
        )
    ours, theirs = runs.common(keys)
    arm_values, base_values = runs.values(keys[0], phase, metric)[ours], runs.values(keys[1], phase, metric)[theirs]
    both = np.isfinite(arm_values) & np.isfinite(base_values)
    if not both.any():
        return None
    covariates = None
    if adjusting is not None:
        arm_covariate, base_covariate = (_covariate(runs, key, adjusting.name) for key in keys)
        covariates = arm_covariate[ours][both], base_covariate[theirs][both]
        if not np.isfinite(covariates).all():
            adjusting, covariates = None, None
    copies = COPIES if described(metric).noise != OWN and runs.interleaved(keys[0]) else 0.0
    return Paired(
        *keys,
        metric,
        arm_values[both],
        base_values[both],
        adjusting,
        covariates,
        copies,
        runs.rounds(keys[0])[ours][both],
    )


def with_error(centre: variance_pooling.PooledEstimate, lasting_error: float) -> variance_pooling.PooledEstimate:
    """Add a ``lasting_error`` (of many degrees of freedom) that is the same at every look."""
    if centre.error is None or not lasting_error:
        return centre
    many, few = (
        estimators.student_quantile(0.5 + estimators.CONFIDENCE / 2, degrees)
        for degrees in (variance_pooling.MANY, centre.degrees)
    )
    error = math.hypot(centre.error, lasting_error * many / few)
    together, bounded = (
        math.hypot(factor * centre.error, lasting * lasting_error) / error
        for factor, lasting in zip((centre.together, centre.bounded), centre.lasting, strict=True)
    )
    return replace(centre, error=error, together=together, bounded=bounded)


def find_adjusting(runs: Runs, keys: Sequence[Key], phase: str, metric: str) -> Adjusting | None:
    """Return the covariate that explains most of these arms' noise, or None if none helps."""
    if described(metric).noise != SPEED or runs.unpaired:
        return None
    keys = _lasting(runs, keys)
    if len(keys) < 2:
        return None
    places = _some(runs.common(keys))
    y = np.array([runs.values(key, phase, metric)[place] for key, place in zip(keys, places, strict=True)]).T
    if y.shape[0] < estimators.COVARIATE_ROUNDS or not (np.isfinite(y) & (y > 0)).all():
        return None
    y = estimators.residuals(np.log(y))
    best: Adjusting | None = None
    for name in COVARIATES:
        x = runs.once(_covariate_residuals, runs, tuple(keys), name)
        covariate = estimators.find_covariate(y, x) if np.isfinite(x).all() else None
        if covariate and (best is None or covariate.variance_left < best.covariate.variance_left):
            best = Adjusting(name, covariate)
    return best


def _lasting(runs: Runs, keys: Sequence[Key]) -> list[Key]:
    """Return the arms that ran in most rounds, without those that have dropped out of the race: the slope of the others
    needs all their rounds."""
    rounds = {key: int(runs.common([key])[0].size) for key in keys}
    return [key for key, count in rounds.items() if count > _LASTING * max(rounds.values())]


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
