"""How long an undecided session probably takes until its arms have verdicts, by simulated further rounds. Pure.

A session knows a distribution of what it does not know (Gelman et al. 2013, Bayesian Data Analysis, ch. 5 and 7):

1. The variance of a round: scaled inverse chi², with the pooled variance and degrees of freedom of the ranking.
2. What each arm costs: normal around its estimate. Arms near the reference scatter about a common value; how much they
   scatter is unknown, and drawn as well. Without that, identical arms would seem to differ by their luck so far.
3. Further rounds: normal noise of each arm. All ratios of a round have the reference's noise in common. An arm with a
   verdict is run no more.

Each draw plays the rounds up to MOST_ROUNDS and asks after each whether the arms have verdicts. So the ends of the
range contain what is unknown of ratio and noise, for all arms together. benchmarks/proofs/outlook.py plays whole
sessions and counts how often the range holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kit.analysis.session.difference import Difference
from kit.analysis.session.race import racing
from kit.analysis.session.ranking import Ranking, RankRow
from kit.analysis.session.timing import count_rounds, round_seconds
from kit.analysis.stats import estimators
from kit.analysis.stats.estimate import INCONCLUSIVE
from kit.analysis.stats.estimators import Floats
from kit.analysis.stats.sequential import widening
from kit.model.plan import DECIDE_FROM, MOST_ROUNDS
from kit.model.session import Session

#: Simulated futures, and the values of all arms and rounds that limit them.
_DRAWS, _LEAST_DRAWS, _MOST_VALUES = 1_000, 200, 500_000
_SEED = 20_261_129
#: An arm is hopeless if this share of futures does not decide it.
SURE = 0.9
#: Logarithm of the ratio from which on an arm says nothing about those near the reference.
_FAR = math.log(1.25)
#: Scatter of what arms cost, as a logarithm: possible values, and the scale of its half-Cauchy prior (Gelman 2006,
#: doi:10.1214/06-BA117A).
_SCATTERS: Floats = np.concatenate([[0.0], np.geomspace(0.001, 0.2, 30)])
_SCALE = 0.05
#: The least standard deviation of a round that is divided by, as a logarithm.
_LEAST_SPREAD = 1e-9

Looks = NDArray[np.bool_]


@dataclass(frozen=True)
class Outlook:
    """``hopeless``: arms and points that MOST_ROUNDS rounds do not decide, with a probability of 90 %. ``seconds``
    until all others are decided: the low end of the 80 % range, the median, and the high end. Each may be infinite: not
    within MOST_ROUNDS rounds, which end after ``most`` further seconds. None if no other arm is left, or if a round's
    time is unknown."""

    hopeless: tuple[tuple[str, str], ...] = ()
    seconds: tuple[float, float, float] | None = None
    most: float = math.inf


def find_outlook(session: Session, rankings: Sequence[Ranking]) -> Outlook:
    """Return what further rounds would probably decide. A session always has the same outlook."""
    each = round_seconds(session, racing(rankings, session.baselines))
    rounds = MOST_ROUNDS - count_rounds(session)
    judged = [(row, ranking.point) for ranking in rankings for row in _judged(ranking)]
    undecided = [(row.arm, point) for row, point in judged if row.verdict == INCONCLUSIVE]
    if rounds < 1 or not undecided:
        return Outlook(tuple(undecided))
    rng = np.random.default_rng(_SEED)
    draws = max(_LEAST_DRAWS, min(_DRAWS, _MOST_VALUES // (len(judged) * rounds)))
    hopeless: list[tuple[str, str]] = []
    hopeful = False
    all_decided = np.ones((rounds, draws), bool)
    for ranking in rankings:
        for row, looks in zip(_judged(ranking), decided_looks(ranking, rounds, draws, rng), strict=True):
            inconclusive = row.verdict == INCONCLUSIVE
            if inconclusive and float(looks.any(axis=0).mean()) <= 1 - SURE:
                hopeless.append((row.arm, ranking.point))
                continue
            hopeful |= inconclusive
            all_decided &= looks
    if not hopeful or not each:
        return Outlook(tuple(hopeless))
    needed = np.where(all_decided.any(axis=0), 1.0 + all_decided.argmax(axis=0), math.inf)
    tail = (1 - estimators.RANGE) / 2
    low, typical, high = np.quantile(needed, (tail, 0.5, 1 - tail), method="inverted_cdf") * each
    return Outlook(tuple(hopeless), (float(low), float(typical), float(high)), rounds * each)


def _judged(ranking: Ranking) -> list[RankRow]:
    """Return the rows whose verdicts end a session, as far as a round of them has a known noise."""
    return [row for row in ranking.judged if row.verdict and row.against and row.against.spread is not None]


def decided_looks(ranking: Ranking, rounds: int, draws: int, rng: np.random.Generator) -> Looks:
    """Return arms x rounds x draws: whether the arm has had a verdict by that number of further rounds, since it is run
    no more then. The arms are those that decide about the session's end, in the ranking's order."""
    rows = _judged(ranking)
    compared = [row.against for row in rows if row.against]
    further = np.arange(1, rounds + 1)
    if not compared:
        return np.zeros((0, rounds, draws), bool)
    spreads, effects = _draw_truths(compared, draws, rng)
    of_arms = _split(spreads)
    noise = (rng.standard_normal((1 + len(compared), rounds, draws)) * of_arms[:, None]).cumsum(axis=1)
    control = _draw_control(compared, ranking.margin, spreads, further, rng)
    looks = np.zeros((len(compared), rounds, draws), bool)
    for i, pair in enumerate(compared):
        total = (pair.ratio.n + further)[:, None]
        sums = pair.ratio.n * math.log(pair.ratio.estimate) + further[:, None] * effects[i] + noise[1 + i] - noise[0]
        away = np.abs(sums / total)
        error = _draw_errors(pair, spreads[i], further, rng)
        significant, bounded = (
            np.hypot(_errors(pair, ranking.rounds, further, which) * error, pair.lasting[which] * pair.floor)
            for which in (0, 1)
        )
        equivalent = (away + bounded <= math.log1p(ranking.margin)) & (total >= DECIDE_FROM) & control
        looks[i] = np.logical_or.accumulate(equivalent | (away > significant), axis=0)
        looks[i] |= rows[i].verdict != INCONCLUSIVE
    return looks


def _draw_spreads(compared: Sequence[Difference], draws: int, rng: np.random.Generator) -> Floats:
    """Return arms x draws: true standard deviations of a round's ratio, whose median is the estimate. All estimates
    rest on the same runs, so they are too large or too small together."""
    from scipy.special import chdtri

    estimates = np.array([max(pair.spread or 0.0, _LEAST_SPREAD) for pair in compared])[:, None]
    degrees = np.array([pair.degrees for pair in compared], float)[:, None]
    spreads: Floats = estimates * np.sqrt(chdtri(degrees, 0.5) / chdtri(degrees, rng.random(draws)))
    return spreads


def _split(spreads: Floats) -> Floats:
    """Return the noise of the reference, then that of each arm: half the least variance of a ratio is the
    reference's."""
    reference = spreads.min(axis=0) / math.sqrt(2)
    return np.vstack([reference, np.sqrt(spreads**2 - reference**2)])


def _draw_truths(compared: Sequence[Difference], draws: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return arms x draws: true standard deviations of a round's ratio, and true logarithms of the ratios, by the
    normal hierarchical model (Gelman et al. 2013, 5.4). Its members are the reference, whose value is 0 here, and the
    arms."""
    spreads = _draw_spreads(compared, draws, rng)
    of_arms = _split(spreads)
    values = np.array([0.0, *(math.log(pair.ratio.estimate) for pair in compared)])[:, None]
    rounds = np.array([max(pair.ratio.n for pair in compared), *(pair.ratio.n for pair in compared)], float)[:, None]
    variances = of_arms**2 / rounds
    near = np.abs(values[:, 0]) < _FAR
    total = variances[near][:, None] + _SCATTERS[:, None] ** 2  # members x scatters x draws
    precision = (1 / total).sum(axis=0)
    centre = (values[near][:, None] / total).sum(axis=0) / precision
    squares = ((values[near][:, None] - centre) ** 2 / total).sum(axis=0)
    prior = np.log(np.gradient(_SCATTERS) / (1 + (_SCATTERS / _SCALE) ** 2))[:, None]
    chance = prior - 0.5 * (np.log(precision) + np.log(total).sum(axis=0) + squares)
    chance = np.exp(chance - chance.max()).cumsum(axis=0)
    drawn = rng.choice(draws, draws, p=chance[-1] / chance[-1].sum())
    spreads, variances, chance = spreads[:, drawn], variances[:, drawn], chance[:, drawn]
    which = (chance < rng.random(draws) * chance[-1]).sum(axis=0), drawn
    common = centre[which] + rng.standard_normal(draws) / np.sqrt(precision[which])
    scatter = _SCATTERS[which[0]] ** 2
    weight = np.where(near[:, None], scatter / (scatter + variances), 1.0)
    true = common + weight * (values - common) + np.sqrt(weight * variances) * rng.standard_normal(variances.shape)
    return spreads, true[1:] - true[0]


def _draw_control(
    compared: Sequence[Difference], margin: float, spreads: Floats, further: NDArray[np.int64], rng: np.random.Generator
) -> Looks:
    """Return rounds x draws: whether the control bounds the margin, without which no arm is equivalent. Its noise is
    about that of the arms. Over many rounds its copies differ by no more than the floor."""
    first = compared[0]
    visible = math.log(max(pair.ratio.visible for pair in compared))
    if not visible:
        return np.ones((1, 1), bool)
    spread, usual_spread = np.median(spreads, axis=0), float(np.median([pair.spread or 0.0 for pair in compared]))
    degrees = np.array([first.degrees + more for more in range(1 + further.size)], float)
    quantiles = _quantiles(1, np.zeros_like(degrees, int), degrees, 1)[:, None]
    lasting = float(_quantiles(1, np.array([0]), np.array([math.inf]), 1)[0]) * first.floor
    away = max(visible - math.hypot(float(quantiles[0, 0]) * usual_spread / math.sqrt(first.ratio.n), lasting), 0.0)
    weight = first.floor**2 / (first.floor**2 + spread**2 / first.ratio.n)
    true = weight * away + np.sqrt(weight * spread**2 / first.ratio.n) * rng.standard_normal(spread.size)
    noise = (rng.standard_normal((further.size, spread.size)) * spread).cumsum(axis=0)
    total = (first.ratio.n + further)[:, None]
    centre = (first.ratio.n * away + further[:, None] * true + noise) / total
    bounded = np.hypot(quantiles[1:] * spread / np.sqrt(total), lasting)
    passes: Looks = np.abs(centre) + bounded <= math.log1p(margin)
    return passes


def _draw_errors(pair: Difference, spreads: Floats, further: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Return rounds x draws: standard errors of the ratio, as they will be estimated. Each round adds as many degrees
    of freedom as one did so far."""
    each = pair.degrees / estimators.own_degrees(pair.ratio.n)
    squares = (spreads**2 * rng.gamma(each / 2, 2.0, (further.size, spreads.size))).cumsum(axis=0)
    variance = (pair.degrees * (pair.spread or 0.0) ** 2 + squares) / (pair.degrees + each * further)[:, None]
    errors: Floats = np.sqrt(variance / (pair.ratio.n + further)[:, None])
    return errors


def _errors(pair: Difference, looks: int, further: NDArray[np.int64], which: int) -> Floats:
    """Return half widths in standard errors after further rounds, of the simultaneous 95 % interval (``which`` 0) or of
    that for two one-sided tests (1), without what no round removes.

    Quantiles are Student's t by Bonferroni's inequality, which after some rounds are within 3 % of the intervals' own.
    By how much today's interval deviates counts the less, the more rounds follow."""
    degrees_now = estimators.own_degrees(pair.ratio.n)
    degrees = np.array(
        [pair.degrees * estimators.own_degrees(pair.ratio.n + more) / degrees_now for more in map(int, further)]
    )
    later = _quantiles(pair.family, max(looks, pair.ratio.n) + further, degrees, which)
    today = _quantiles(pair.family, np.array([looks]), np.array([pair.degrees]), which)
    interval = (pair.ratio.bounded or pair.ratio.together) if which else pair.ratio.together
    deviation = 1.0
    if interval.low and interval.high and pair.spread:
        half = math.log(interval.high / interval.low) / 2
        half = math.sqrt(max(half**2 - (pair.lasting[which] * pair.floor) ** 2, 0.0))
        deviation = half / (pair.spread / math.sqrt(pair.ratio.n)) / float(today[0])
    errors: Floats = later * (1 + (deviation - 1) * (pair.ratio.n / (pair.ratio.n + further)) ** 2)
    return errors[:, None]


def _quantiles(family: int, looks: NDArray[np.int64], degrees: Floats, which: int) -> Floats:
    from scipy.special import stdtrit

    tails = np.array([(1 - estimators.CONFIDENCE) / family / widening(rounds) for rounds in map(int, looks)])
    quantiles: Floats = stdtrit(degrees, 1 - tails / (1 if which else 2))
    return quantiles
