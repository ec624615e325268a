"""How many machines, and how many rounds on each, for an interval that is narrow enough: two-stage sampling. Pure.

The mean of m machines of n rounds has the variance (tau² + sigma² / n) / m, tau² between machines and sigma² of a
round. A machine costs its set-up and its rounds, so that the cheapest n is about sqrt(set-up / round * sigma² / tau²)
(Cochran 1977, ch. 10). How wide an interval will be is chance, and neither variance is known but from figures: a plan
holds where the chance that it keeps its promise, over all that both may be, is large enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kit.analysis import stats
from kit.analysis.farm import FarmRatio, effects_of
from kit.analysis.random_effects import draw, fit
from kit.analysis.stats import Floats
from kit.model.fact import makers
from kit.model.session import Session

#: Of plans that are carried out, so many reach what they promise.
ASSURANCE = 0.8
#: More machines than these are no plan. Rounds that are tried: two at least, or a machine's own noise is not known.
MOST_MACHINES = 10_000
_ROUNDS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100)
LEAST_MACHINES = 3
#: So many tell a chance to a percent.
_DRAWS = 500


@dataclass(frozen=True)
class Variances:
    """What is known of an arm: variances of the logarithm between machines, ``tau2``, and of one round,
    ``sigma2``; as drawn from what the figures leave open, and as they are said to be."""

    arm: str
    tau2: Floats
    sigma2: Floats
    said_tau2: float
    said_sigma2: float


@dataclass(frozen=True)
class Cost:
    """Seconds that a machine is taken up: once, and for each round of all arms."""

    once: float
    round: float

    def of(self, rounds: int) -> float:
        return self.once + rounds * self.round


@dataclass(frozen=True)
class FarmPlan:
    """``half``: of the interval of the mean, as a logarithm, as it will typically be. ``chance``: that it is as narrow
    as was asked. ``machine_seconds``: of all machines together; ``seconds``: until the last is done, where all run at
    once."""

    machines: int
    rounds: int
    half: float
    chance: float
    machine_seconds: float
    seconds: float


def find_variances(arm: str, found: FarmRatio) -> Variances | None:
    """None of fewer machines than make a figure, or where none tells of its own noise."""
    from scipy.special import chdtri

    known = [item for item in found.machines if item.variance is not None]
    if found.ratio is None or not known:
        return None
    effects = effects_of(found.machines)
    of_round = np.array([(item.variance or 0.0) * item.ratio.n for item in known])
    degrees = np.array([item.degrees for item in known], float)
    # Machines of one round of analysis share an estimate; else all add to what is known of a round.
    total = float(degrees[0]) if known[0].pooled else float(degrees.sum())
    said = float((of_round * degrees).sum() / degrees.sum())
    tau2 = draw(effects, _DRAWS).tau2
    levels = (np.random.default_rng(1).permutation(tau2.size) + 0.5) / tau2.size
    sigma2 = np.asarray(said * total / chdtri(total, levels), float)
    return Variances(arm, tau2, sigma2, float(fit(effects).tau2), said)


def find_plan(
    known: Sequence[Variances], cost: Cost, reach: float, assurance: float = ASSURANCE, most: int = MOST_MACHINES
) -> FarmPlan | None:
    """The cheapest that brings the interval of every arm's mean to ±``reach`` (a logarithm) with a chance of
    ``assurance``; None where so many machines as ``most`` do not."""
    best: FarmPlan | None = None
    for rounds in _ROUNDS:
        machines = _least_machines(known, rounds, reach, assurance, most)
        if machines is not None:
            made = weigh(known, cost, machines, rounds, reach)
            if best is None or made.machine_seconds < best.machine_seconds:
                best = made
    return best


def weigh(known: Sequence[Variances], cost: Cost, machines: int, rounds: int, reach: float) -> FarmPlan:
    """What so many machines of so many rounds bring, of the arm that is known worst."""
    half = max(
        stats.student_quantile(0.975, machines - 1) * math.sqrt((item.said_tau2 + item.said_sigma2 / rounds) / machines)
        for item in known
    )
    alone = cost.of(rounds)
    return FarmPlan(machines, rounds, half, _chance(known, machines, rounds, reach), machines * alone, alone)


def _least_machines(known: Sequence[Variances], rounds: int, reach: float, assurance: float, most: int) -> int | None:
    """By halving: more machines are never worse."""
    if _chance(known, most, rounds, reach) < assurance:
        return None
    low, high = LEAST_MACHINES - 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _chance(known, middle, rounds, reach) >= assurance else (middle, high)
    return high


def _chance(known: Sequence[Variances], machines: int, rounds: int, reach: float) -> float:
    """That half the interval, t * s / sqrt(machines), is at most ``reach``, of the arm for which it is least: s² is
    chi² about a variance that is itself one of those drawn."""
    from scipy.special import chdtr

    t = stats.student_quantile(0.975, machines - 1)
    least = machines * (reach / t) ** 2 * (machines - 1)
    return min(float(chdtr(machines - 1, least / (item.tau2 + item.sigma2 / rounds)).mean()) for item in known)


@dataclass(frozen=True)
class Planning:
    """What there is to choose from for an interval of ±``reach`` (a share). ``sure``: the cheapest with the chance that
    was asked for, ``even``: with one of a half; ``here``: the best of the machines that are known, where they are
    enough; None where nothing is. ``without``: arms of which nothing is known. ``apart``: those whose classes are said
    to differ, so that the spread is the classes', too."""

    title: str
    reach: float
    assurance: float
    cost: Cost
    found: tuple[tuple[str, FarmRatio], ...]
    variances: tuple[Variances, ...]
    sure: FarmPlan | None
    even: FarmPlan | None
    here: FarmPlan | None
    machines: int
    without: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()


def plan_farm(
    title: str, found: Sequence[tuple[str, FarmRatio]], cost: Cost, reach: float, assurance: float = ASSURANCE,
    apart: Sequence[str] = (),
) -> Planning:  # fmt: skip
    """``found``: arms by their names, as they were measured. ``reach``: 0.01 for ±1 %. ``apart``: see Planning."""
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
    """What a round of a session takes on a machine, and all before the first (seconds, the median of the sessions).
    None where none has two rounds. Of a session that machines shared, rounds follow each other on each of them."""
    rounds, before = [], []
    for session in sessions:
        made = makers(session.facts)
        starts: dict[str, dict[int, float]] = {}
        for sample in session.samples:
            if sample.kind == "measured" and sample.repeats is None:
                mine = starts.setdefault(made.get(sample.block, ""), {})
                mine[sample.block] = min(sample.started, mine.get(sample.block, math.inf))
        for times in (sorted(mine.values()) for mine in starts.values()):
            if len(times) > 1:
                rounds.append(float(np.median(np.diff(times))))
                before.append(max(times[0] - session.created, 0.0))
    return Cost(float(np.median(before)), float(np.median(rounds))) if rounds else None
