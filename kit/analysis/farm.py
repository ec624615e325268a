"""What an arm costs on a farm: one figure from those of several machines, with how far machines lie apart, what another
machine would show, and which of them do not fit. Pure.

The logarithms of the machines' ratios are a random-effects meta-analysis (kit.analysis.random_effects). Which of the
published ways hold with few machines of few rounds each was simulated: benchmarks/farm.py, docs/method.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kit.analysis import stats
from kit.analysis.compare import LESS, MORE, NO_INTERVAL, NOT_DETECTED
from kit.analysis.random_effects import ENDS, Draws, Effects, Fit, draw, find_chances, fit
from kit.analysis.stats import Centre, Floats, Interval

#: Below so many machines there is no figure of all, and below so many none can be told not to fit.
LEAST, LEAST_TO_FIT = 3, 4
#: Of so many farms whose machines are all alike, one is said not to fit.
MISFIT_LEVEL = 0.05
#: Misfits hide each other: up to so many are looked for, a fifth of the machines at most.
_MOST_MISFITS, _OF_MACHINES = 10, 5


@dataclass(frozen=True)
class MachineRatio:
    """What one machine says of an arm: its ratio with the interval that its own rounds give, and the variance of the
    ratio's logarithm with its degrees of freedom, None where one round tells nothing of it. ``session``: where it is
    from. ``pooled``: the variance is that of all machines' rounds together."""

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
class Misfit:
    """A machine of which the others tell something else. ``p``: of one so far off where all are alike."""

    found: MachineRatio
    p: float


@dataclass(frozen=True)
class Spread:
    """How far the machines' true penalties lie apart: the standard deviation of the logarithm of the ratio, with its
    95 % interval. ``share``: how much of what the figures differ by is the machines and not noise (I²; Higgins and
    Thompson 2002). ``with_noise``: most machines ran one round, so that noise is in it."""

    tau: float
    low: float
    high: float
    share: float
    with_noise: bool


@dataclass(frozen=True)
class FarmRatio:
    """An arm against its baseline over machines, of one class or of all (``machine_class`` is '').

    ``ratio`` with ``low`` and ``high``: the geometric mean over machines and its 95 % interval; ``low_all`` and
    ``high_all`` hold at once with those of ``family`` arms. ``another``: between its ends lies the penalty of a machine
    not measured, with 95 %. ``without``: the mean of the machines that are no misfits, with its 95 % interval, None
    where all fit; misfits stay in the other figures. ``reason``: why there is no figure.
    """

    machine_class: str
    machines: tuple[MachineRatio, ...]
    family: int = 1
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    low_all: float | None = None
    high_all: float | None = None
    spread: Spread | None = None
    another: Interval | None = None
    misfits: tuple[Misfit, ...] = ()
    without: Interval | None = None
    reason: str = ""

    @property
    def verdict(self) -> str:
        """With all arms allowed for."""
        if self.low_all is None or self.high_all is None:
            return NO_INTERVAL
        return MORE if self.low_all > 1 else LESS if self.high_all < 1 else NOT_DETECTED


def over_machines(found: Sequence[MachineRatio], machine_class: str = "", family: int = 1) -> FarmRatio:
    """All that these machines say of an arm that is one of ``family``."""
    made = FarmRatio(machine_class, tuple(found), family)
    if len(found) < LEAST:
        return replace(made, reason=f"{LEAST} are the least that tell how far machines differ")
    effects = effects_of(found)
    fitted = fit(effects)
    centre = _centre(fitted, len(found))
    misfits = find_misfits(found)
    fitting = [item for item in found if item not in [misfit.found for misfit in misfits]]
    rest = _centre(fit(effects_of(fitting)), len(fitting)) if misfits and len(fitting) >= LEAST else None
    alone, together = (
        stats.as_ratio(centre.interval(confidence))
        for confidence in (stats.CONFIDENCE, stats.family_confidence(family))
    )
    draws = draw(effects)
    low, high = np.quantile(draws.another, ENDS)
    return replace(
        made,
        ratio=alone.estimate,
        low=alone.low,
        high=alone.high,
        low_all=together.low,
        high_all=together.high,
        spread=_spread(fitted, draws, not _noise_is_known(found)),
        another=stats.as_ratio(Interval(centre.estimate, float(low), float(high), len(found))),
        misfits=misfits,
        without=stats.as_ratio(rest.interval()) if rest else None,
    )


def _centre(fitted: Fit, machines: int) -> Centre:
    return Centre(float(fitted.mean), float(fitted.error), machines - 1, machines)


def effects_of(found: Sequence[MachineRatio]) -> Effects:
    """A machine of one round is taken to be as noisy as the others; where most are, there is no noise, and the spread
    holds it: what a few say of it would pass for what all know."""
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


def find_misfits(found: Sequence[MachineRatio]) -> tuple[Misfit, ...]:
    """The machines that do not fit, the farthest first. The farthest is taken away and the rest looked at again, since
    two hide each other; all up to the last that stands out count (Rosner 1983)."""
    rest = list(found)
    taken: list[Misfit] = []
    for _ in range(min(_MOST_MISFITS, max(1, len(found) // _OF_MACHINES))):
        if len(rest) < LEAST_TO_FIT:
            break
        chances: Floats = find_chances(effects_of(rest))
        farthest = int(chances.argmin())
        taken.append(Misfit(rest.pop(farthest), float(chances[farthest])))
    standing = [i for i, item in enumerate(taken) if item.p < MISFIT_LEVEL]
    return tuple(taken[: standing[-1] + 1]) if standing else ()


def split_ratios(logs: Sequence[tuple[str, str, str, Floats]]) -> tuple[MachineRatio, ...]:
    """Of one session whose blocks ran on several machines: machine, class, session, and the logarithms of the ratios in
    that machine's blocks. Like machines have like noise, which is told by what blocks of the same machine differ by,
    all together: machine as a factor, blocks nested in it (one-way random-effects analysis of variance)."""
    degrees = sum(values.size - 1 for *_, values in logs)
    squares = sum(float(((values - values.mean()) ** 2).sum()) for *_, values in logs)
    made = []
    for machine, machine_class, session, values in logs:
        variance = squares / degrees / values.size if degrees else None
        error = None if variance is None else math.sqrt(variance)
        own = stats.as_ratio(Centre(float(values.mean()), error, degrees, int(values.size)).interval())
        made.append(MachineRatio(machine, machine_class, session, own, variance, max(degrees, 1), True))
    return tuple(made)
