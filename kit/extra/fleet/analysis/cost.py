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


def over_machines(machines: Sequence[MachineRatio], machine_class: str = "", family: int = 1) -> FleetRatio:
    """Return the figures of one arm over these machines. ``family``: number of arms compared."""
    fleet_ratio = FleetRatio(machine_class, tuple(machines), family)
    if len(machines) < LEAST:
        return replace(fleet_ratio, reason=f"{LEAST} are the minimum to show how machines differ")
    effects = effects_of(machines)
    fitted = fit(effects)
    centre = _centre(fitted, len(machines))
    outliers = find_outliers(machines)
    fitting = [machine for machine in machines if machine not in [outlier.found for outlier in outliers]]
    without_outliers = _centre(fit(effects_of(fitting)), len(fitting)) if outliers and len(fitting) >= LEAST else None
    together = as_ratio(centre.interval(estimators.family_confidence(family)))
    draws = draw(effects)
    low, high = np.quantile(draws.another, ENDS)
    return replace(
        fleet_ratio,
        ratio=Estimate(**vars(as_ratio(centre.interval())), together=together),
        spread=_spread(fitted, draws, not _noise_is_known(machines)),
        prediction=as_ratio(Interval(centre.estimate, float(low), float(high), len(machines))),
        outliers=outliers,
        without_outliers=as_ratio(without_outliers.interval()) if without_outliers else None,
    )


def _centre(fitted: Fit, machines: int) -> Centre:
    return Centre(float(fitted.mean), float(fitted.error), machines - 1, machines)


def effects_of(machines: Sequence[MachineRatio]) -> Effects:
    """Return the machines' effects. A machine with one round gets the noise of the others. If most have one round,
    noise is 0 and the spread includes it: a few machines' noise would pass for that of all."""
    with_variance = (
        [machine for machine in machines if machine.variance is not None] if _noise_is_known(machines) else []
    )
    of_round = (
        float(np.median([(machine.variance or 0.0) * machine.ratio.n for machine in with_variance]))
        if with_variance
        else 0.0
    )
    degrees = float(np.median([machine.degrees for machine in with_variance])) if with_variance else 1.0
    return Effects(
        np.array([machine.log for machine in machines]),
        np.array(
            [
                of_round / machine.ratio.n if machine.variance is None or not with_variance else machine.variance
                for machine in machines
            ]
        ),
        np.array(
            [
                degrees if machine.variance is None or not with_variance else float(machine.degrees)
                for machine in machines
            ]
        ),
        any(machine.pooled for machine in machines),
        np.array([float(machine.ratio.n) for machine in machines]),
    )


def _noise_is_known(machines: Sequence[MachineRatio]) -> bool:
    return 2 * sum(machine.variance is not None for machine in machines) >= len(machines)


def _spread(fitted: Fit, draws: Draws, with_noise: bool) -> Spread:
    tau2 = float(fitted.tau2)
    low, high = np.quantile(draws.tau2, ENDS)
    typical = float(fitted.noise / fitted.slope)
    share = tau2 / (tau2 + typical) if tau2 else 0.0
    return Spread(math.sqrt(tau2), math.sqrt(low), math.sqrt(high), share, with_noise)


def find_outliers(machines: Sequence[MachineRatio]) -> tuple[Outlier, ...]:
    """Return the outliers, the farthest first. Two outliers hide each other, so the farthest is removed and the rest is
    tested again. All machines up to the last outlier count (Rosner 1983)."""
    remaining = list(machines)
    removed: list[Outlier] = []
    for _ in range(min(_MOST_MISFITS, max(1, len(machines) // _OF_MACHINES))):
        if len(remaining) < LEAST_TO_FIT:
            break
        chances: Floats = find_chances(effects_of(remaining))
        farthest = int(chances.argmin())
        removed.append(Outlier(remaining.pop(farthest), float(chances[farthest])))
    standing = [i for i, outlier in enumerate(removed) if outlier.p < MISFIT_LEVEL]
    return tuple(removed[: standing[-1] + 1]) if standing else ()


def split_ratios(logs: Sequence[tuple[str, str, str, Floats]]) -> tuple[MachineRatio, ...]:
    """Return machine, class, session and log ratios of each machine that ran rounds of one session. Machines have
    similar noise. It is estimated from all differences within machines: machine as a factor, rounds nested in it
    (one-way random-effects analysis of variance)."""
    degrees = sum(values.size - 1 for *_, values in logs)
    squares = sum(float(((values - values.mean()) ** 2).sum()) for *_, values in logs)
    ratios = []
    for machine, machine_class, session, values in logs:
        variance = squares / degrees / values.size if degrees else None
        error = None if variance is None else math.sqrt(variance)
        ratio = as_ratio(Centre(float(values.mean()), error, degrees, int(values.size)).interval())
        ratios.append(MachineRatio(machine, machine_class, session, ratio, variance, max(degrees, 1), True))
    return tuple(ratios)
