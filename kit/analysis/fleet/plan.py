"""How many machines, and how many rounds on each, for an interval that is narrow enough: two-stage sampling. Pure.

The mean of m machines of n rounds has the variance (tau² + sigma² / n) / m, tau² between machines and sigma² of a
round. A machine costs its set-up and its rounds, so that the cheapest n is about sqrt(set-up / round * sigma² / tau²)
(Cochran 1977, ch. 10). How wide an interval will be is random, and neither variance is known but from figures: a plan
holds where the probability that it keeps its promise, over all that both may be, is large enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kit.analysis.fleet.cost import FleetRatio, effects_of
from kit.analysis.stats import estimators
from kit.analysis.stats.estimators import Floats
from kit.analysis.stats.random_effects import draw, fit
from kit.model.fact import makers
from kit.model.session import Session

#: This share of executed plans reaches the promised interval.
ASSURANCE = 0.8
#: The largest number of machines in a plan, and the numbers of rounds tried. A machine's own noise needs two rounds.
MOST_MACHINES = 10_000
_ROUNDS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100)
LEAST_MACHINES = 3
#: This number of draws gives a probability to a percent.
_DRAWS = 500


@dataclass(frozen=True)
class Variances:
    """Known variances of an arm's logarithm: ``tau2`` between machines and ``sigma2`` of one round. Both are given as
    draws of possible values and as point estimates."""

    arm: str
    tau2: Floats
    sigma2: Floats
    said_tau2: float
    said_sigma2: float


@dataclass(frozen=True)
class Cost:
    """Seconds that a machine is in use: once for set-up, and for each round of all arms."""

    once: float
    round: float

    def of(self, rounds: int) -> float:
        return self.once + rounds * self.round


@dataclass(frozen=True)
class FleetPlan:
    """A number of machines and rounds. ``half``: typical half-width of the mean's interval, a logarithm. ``chance``:
    probability of an interval as narrow as requested. ``machine_seconds``: of all machines together; ``seconds``:
    elapsed, if all run in parallel."""

    machines: int
    rounds: int
    half: float
    chance: float
    machine_seconds: float
    seconds: float


def find_variances(arm: str, found: FleetRatio) -> Variances | None:
    """Return the variances; None with too few machines for a figure, or if no machine shows its own noise."""
    from scipy.special import chdtri

    known = [item for item in found.machines if item.variance is not None]
    if found.ratio is None or not known:
        return None
    effects = effects_of(found.machines)
    of_round = np.array([(item.variance or 0.0) * item.ratio.n for item in known])
    degrees = np.array([item.degrees for item in known], float)
    # Machines of one round of analysis share an estimate; other machines each add information on a round.
    total = float(degrees[0]) if known[0].pooled else float(degrees.sum())
    said = float((of_round * degrees).sum() / degrees.sum())
    tau2 = draw(effects, _DRAWS).tau2
    levels = (np.random.default_rng(1).permutation(tau2.size) + 0.5) / tau2.size
    sigma2 = np.asarray(said * total / chdtri(total, levels), float)
    return Variances(arm, tau2, sigma2, float(fit(effects).tau2), said)


def find_plan(
    known: Sequence[Variances], cost: Cost, reach: float, assurance: float = ASSURANCE, most: int = MOST_MACHINES
) -> FleetPlan | None:
    """Return the cheapest plan whose intervals reach ±``reach`` (a logarithm) with the probability ``assurance``. The
    plan covers every arm's mean. None if ``most`` machines do not suffice."""
    best: FleetPlan | None = None
    for rounds in _ROUNDS:
        machines = _least_machines(known, rounds, reach, assurance, most)
        if machines is not None:
            made = weigh(known, cost, machines, rounds, reach)
            if best is None or made.machine_seconds < best.machine_seconds:
                best = made
    return best


def weigh(known: Sequence[Variances], cost: Cost, machines: int, rounds: int, reach: float) -> FleetPlan:
    """Return what this number of machines and rounds achieves for the least known arm."""
    half = max(
        estimators.student_quantile(0.975, machines - 1)
        * math.sqrt((item.said_tau2 + item.said_sigma2 / rounds) / machines)
        for item in known
    )
    alone = cost.of(rounds)
    return FleetPlan(machines, rounds, half, _chance(known, machines, rounds, reach), machines * alone, alone)


def _least_machines(known: Sequence[Variances], rounds: int, reach: float, assurance: float, most: int) -> int | None:
    """Return the least number of machines, found by bisection: more machines are never worse."""
    if _chance(known, most, rounds, reach) < assurance:
        return None
    low, high = LEAST_MACHINES - 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _chance(known, middle, rounds, reach) >= assurance else (middle, high)
    return high


def _chance(known: Sequence[Variances], machines: int, rounds: int, reach: float) -> float:
    """Return the probability that the half-width, t * s / sqrt(machines), is at most ``reach``. The least probable arm
    decides. s² follows chi² about a variance that is itself one of the draws."""
    from scipy.special import chdtr

    t = estimators.student_quantile(0.975, machines - 1)
    least = machines * (reach / t) ** 2 * (machines - 1)
    return min(float(chdtr(machines - 1, least / (item.tau2 + item.sigma2 / rounds)).mean()) for item in known)


@dataclass(frozen=True)
class Planning:
    """Plans for an interval of ±``reach`` (a share), None if missing. ``sure``: the cheapest plan with the
    requested probability; ``even``: the cheapest with one half; ``here``: the best plan on known machines. ``without``:
    arms without data. ``apart``: arms whose classes differ, so that the spread includes the classes."""

    title: str
    reach: float
    assurance: float
    cost: Cost
    found: tuple[tuple[str, FleetRatio], ...]
    variances: tuple[Variances, ...]
    sure: FleetPlan | None
    even: FleetPlan | None
    here: FleetPlan | None
    machines: int
    without: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()


def plan_fleet(
    title: str, found: Sequence[tuple[str, FleetRatio]], cost: Cost, reach: float, assurance: float = ASSURANCE,
    apart: Sequence[str] = (),
) -> Planning:  # fmt: skip
    """Return the plans. ``found``: measured arms by name. ``reach``: 0.01 for ±1 %. ``apart``: see Planning."""
    known = [made for name, item in found if (made := find_variances(name, item))]
    away = math.log1p(reach)
    machines = max((len(item.machines) for _, item in found), default=0)
    sure, even, here = (
        find_plan(known, cost, away, level, most) if known else None
        for level, most in ((assurance, MOST_MACHINES), (0.5, MOST_MACHINES), (assurance, max(machines, 2)))
    )
    names = {item.arm for item in known}
    without = tuple(name for name, _ in found if name not in names)
    return Planning(
        title, reach, assurance, cost, tuple(found), tuple(known), sure, even, here, machines, without, tuple(apart)
    )


def cost_of(sessions: Sequence[Session]) -> Cost | None:
    """Return the seconds of a round and of set-up on a machine: medians over the sessions. None if no session has two
    rounds. In a session that machines shared, each machine runs its rounds in sequence."""
    rounds, before = [], []
    for session in sessions:
        made = makers(session.facts)
        starts: dict[str, dict[int, float]] = {}
        for sample in session.samples:
            if sample.kind == "measured" and sample.rerun_of is None:
                mine = starts.setdefault(made.get(sample.round, ""), {})
                mine[sample.round] = min(sample.started, mine.get(sample.round, math.inf))
        for times in (sorted(mine.values()) for mine in starts.values()):
            if len(times) > 1:
                rounds.append(float(np.median(np.diff(times))))
                before.append(max(times[0] - session.created, 0.0))
    return Cost(float(np.median(before)), float(np.median(rounds))) if rounds else None
