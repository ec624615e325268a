"""What an arm costs on a fleet: one figure from those of several machines, their spread, a prediction interval, and
outliers. Pure.

The logarithms of the machines' ratios are a random-effects meta-analysis (``random_effects``). Which of the
published ways hold with few machines of few rounds each was simulated: benchmarks/proofs/fleet_cost.py;
docs/explanation/fleet.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kit.analysis.stats import estimators
from kit.analysis.stats.estimate import NO_INTERVAL, Estimate, Interval, Verdict, as_ratio
from kit.analysis.stats.estimators import Centre, Floats
from kit.extra.fleet.analysis.random_effects import ENDS, Draws, Effects, Fit, draw, find_chances, fit

#: The least number of machines for an overall figure, and for outliers.
LEAST, LEAST_TO_FIT = 3, 4
#: Of this number of fleets of equal machines, one reports an outlier.
MISFIT_LEVEL = 0.05
#: Outliers hide each other: the search covers up to this number, a fifth of the machines at most.
_MOST_MISFITS, _OF_MACHINES = 10, 5


@dataclass(frozen=True)
class MachineRatio:
    """One machine's ratio for an arm, with the interval from its own rounds. Also the variance of the ratio's logarithm
    with its degrees of freedom, None after a single round. ``session``: its source. ``pooled``: the variance comes from
    all machines' rounds together."""

    machine: str
    machine_class: str
    session: str
    ratio: Interval
    variance: float | None
    degrees: int
    pooled: bool = False

    @property
    def log(self) -> float:
        return math.log(self.ratio.estimate)


@dataclass(frozen=True)
class Outlier:
    """An outlier. ``p``: probability of such a distance if no machine differs."""

    found: MachineRatio
    p: float


@dataclass(frozen=True)
class Spread:
    """The spread of the machines' true penalties: standard deviation of the ratio's logarithm, with its 95 % interval.
    ``share``: part of the figures' variance that machines cause, not noise (I²; Higgins and Thompson 2002).
    ``with_noise``: the spread includes noise, because most machines ran one round."""

    tau: float
    low: float
    high: float
    share: float
    with_noise: bool


@dataclass(frozen=True)
class FleetRatio:
    """An arm against its baseline over machines, of one class or of all (``machine_class`` is '').

    ``ratio``: the geometric mean over machines, with the interval that is simultaneous with those of ``family`` arms.
    ``prediction``: between its ends lies the penalty of a
    machine not measured, with 95 %. ``without_outliers``: the mean of the other machines, with its 95 % interval, None
    where no outlier is; outliers stay in the other figures. ``reason``: why there is no figure.
    """

    machine_class: str
    machines: tuple[MachineRatio, ...]
    family: int = 1
    ratio: Estimate | None = None
    spread: Spread | None = None
    prediction: Interval | None = None
    outliers: tuple[Outlier, ...] = ()
    without_outliers: Interval | None = None
    reason: str = ""

    @property
    def verdict(self) -> Verdict:
        """Return the verdict of the simultaneous interval."""
        return self.ratio.together.beside(1.0) if self.ratio else NO_INTERVAL


def over_machines(found: Sequence[MachineRatio], machine_class: str = "", family: int = 1) -> FleetRatio:
    """Return the figures of one arm over these machines. ``family``: number of arms compared."""
    made = FleetRatio(machine_class, tuple(found), family)
    if len(found) < LEAST:
        return replace(made, reason=f"{LEAST} are the minimum to show how machines differ")
    effects = effects_of(found)
    fitted = fit(effects)
    centre = _centre(fitted, len(found))
    outliers = find_outliers(found)
    fitting = [item for item in found if item not in [outlier.found for outlier in outliers]]
    rest = _centre(fit(effects_of(fitting)), len(fitting)) if outliers and len(fitting) >= LEAST else None
    together = as_ratio(centre.interval(estimators.family_confidence(family)))
    draws = draw(effects)
    low, high = np.quantile(draws.another, ENDS)
    return replace(
        made,
        ratio=Estimate(**vars(as_ratio(centre.interval())), together=together),
        spread=_spread(fitted, draws, not _noise_is_known(found)),
        prediction=as_ratio(Interval(centre.estimate, float(low), float(high), len(found))),
        outliers=outliers,
        without_outliers=as_ratio(rest.interval()) if rest else None,
    )


def _centre(fitted: Fit, machines: int) -> Centre:
    return Centre(float(fitted.mean), float(fitted.error), machines - 1, machines)


def effects_of(found: Sequence[MachineRatio]) -> Effects:
    """Return the machines' effects. A machine with one round gets the noise of the others. If most have one round,
    noise is 0 and the spread includes it: a few machines' noise would pass for that of all."""
    known = [item for item in found if item.variance is not None] if _noise_is_known(found) else []
    of_round = float(np.median([(item.variance or 0.0) * item.ratio.n for item in known])) if known else 0.0
    degrees = float(np.median([item.degrees for item in known])) if known else 1.0
    return Effects(
        np.array([item.log for item in found]),
        np.array([of_round / item.ratio.n if item.variance is None or not known else item.variance for item in found]),
        np.array([degrees if item.variance is None or not known else float(item.degrees) for item in found]),
        any(item.pooled for item in found),
        np.array([float(item.ratio.n) for item in found]),
    )


def _noise_is_known(found: Sequence[MachineRatio]) -> bool:
    return 2 * sum(item.variance is not None for item in found) >= len(found)


def _spread(fitted: Fit, draws: Draws, with_noise: bool) -> Spread:
    tau2 = float(fitted.tau2)
    low, high = np.quantile(draws.tau2, ENDS)
    typical = float(fitted.noise / fitted.slope)
    share = tau2 / (tau2 + typical) if tau2 else 0.0
    return Spread(math.sqrt(tau2), math.sqrt(low), math.sqrt(high), share, with_noise)


def find_outliers(found: Sequence[MachineRatio]) -> tuple[Outlier, ...]:
    """Return the outliers, the farthest first. Two outliers hide each other, so the farthest is removed and the rest is
    tested again. All machines up to the last outlier count (Rosner 1983)."""
    rest = list(found)
    taken: list[Outlier] = []
    for _ in range(min(_MOST_MISFITS, max(1, len(found) // _OF_MACHINES))):
        if len(rest) < LEAST_TO_FIT:
            break
        chances: Floats = find_chances(effects_of(rest))
        farthest = int(chances.argmin())
        taken.append(Outlier(rest.pop(farthest), float(chances[farthest])))
    standing = [i for i, item in enumerate(taken) if item.p < MISFIT_LEVEL]
    return tuple(taken[: standing[-1] + 1]) if standing else ()


def split_ratios(logs: Sequence[tuple[str, str, str, Floats]]) -> tuple[MachineRatio, ...]:
    """Return machine, class, session and log ratios of each machine that ran rounds of one session. Machines have
    similar noise. It is estimated from all differences within machines: machine as a factor, rounds nested in it
    (one-way random-effects analysis of variance)."""
    degrees = sum(values.size - 1 for *_, values in logs)
    squares = sum(float(((values - values.mean()) ** 2).sum()) for *_, values in logs)
    made = []
    for machine, machine_class, session, values in logs:
        variance = squares / degrees / values.size if degrees else None
        error = None if variance is None else math.sqrt(variance)
        own = as_ratio(Centre(float(values.mean()), error, degrees, int(values.size)).interval())
        made.append(MachineRatio(machine, machine_class, session, own, variance, max(degrees, 1), True))
    return tuple(made)
