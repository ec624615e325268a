"""How many more rounds an inconclusive arm needs for a verdict, and how long they take. Pure.

A round's standard deviation is known from few rounds. The range that follows holds its true value with 80 %
(chi-square, with the degrees of freedom of the estimate), and supposes that the ratio stays what it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.session.difference import Difference
from kit.analysis.session.ranking import INCONCLUSIVE, Ranking, RankRow
from kit.analysis.session.stopping import widening
from kit.analysis.session.timing import count_rounds, round_seconds
from kit.analysis.stats import estimators
from kit.model.plan import MOST_ROUNDS
from kit.model.session import Session

#: More rounds than anybody runs.
MOST = 1_000


@dataclass(frozen=True)
class Outlook:
    """Rounds that would decide rankings. ``hopeless``: arms and points that MOST_ROUNDS rounds would probably not
    decide. ``seconds``: few, typical and many until all others are decided. None if no arm is left, or if a round's
    time is unknown."""

    hopeless: tuple[tuple[str, str], ...]
    seconds: tuple[float, float, float] | None


def find_outlook(session: Session, rankings: Sequence[Ranking]) -> Outlook:
    each, done = round_seconds(session), count_rounds(session)
    needed, hopeless = [], []
    for ranking in rankings:
        for row in (row for row in ranking.undecided if row.verdict == INCONCLUSIVE):
            found = more_rounds(row, ranking)
            if found and done + found[1] <= MOST_ROUNDS:
                needed.append(found)
            else:
                hopeless.append((row.arm, ranking.point))
    if not needed or not each:
        return Outlook(tuple(hopeless), None)
    few, typical, many = (max(item) for item in zip(*needed, strict=True))
    return Outlook(tuple(hopeless), (few * each, typical * each, min(many, MOST_ROUNDS - done) * each))


def more_rounds(row: RankRow, ranking: Ranking) -> tuple[int, int, int] | None:
    """Return how many further rounds are needed until this arm is significantly different from the reference or
    equivalent to it: few, typical and many, each at least 1, and ``MOST`` at most.

    None where the arm has a verdict, has no interval, or where no number of rounds decides: what identical copies
    differ by over a whole session is too large for the margin."""
    item = row.against
    if row.verdict != INCONCLUSIVE or item is None or not item.spread:
        return None
    now = ranking.rounds or item.n
    smaller, larger = estimators.spread_range(item.degrees)
    found = [_rounds(item, item.spread * factor, ranking) for factor in (smaller, 1.0, larger)]
    if found[1] is None:
        return None
    few, typical, many = (max(1, (rounds or MOST) - now) for rounds in found)
    return few, typical, many


def _rounds(item: Difference, spread: float, ranking: Ranking) -> int | None:
    low, high = item.n, item.n + 1
    while not _decides(item, spread, high, ranking):
        low, high = high, 2 * high
        if low > MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _decides(item, spread, middle, ranking) else (middle, high)
    return min(high, MOST)


def _decides(item: Difference, spread: float, rounds: int, ranking: Ranking) -> bool:
    significant, bounded = (_half_width(item, spread, rounds, ranking.rounds, which) for which in (0, 1))
    away = abs(math.log(item.ratio))
    return significant < away or away + bounded <= math.log1p(ranking.margin)


def _half_width(item: Difference, spread: float, rounds: int, looks: int, which: int) -> float:
    """Return the half-width of the simultaneous 95 % interval (``which`` 0) or the 90 % interval of two one-sided tests
    (1), as a logarithm."""
    degrees = item.degrees - estimators.own_degrees(item.n) + estimators.own_degrees(rounds)
    then, now = (
        _quantile(item.family, at if looks else 0, of, which) for at, of in ((rounds, degrees), (looks, item.degrees))
    )
    errors = item.quantiles[which] * then / now
    return math.hypot(errors * spread / math.sqrt(rounds), item.lasting[which] * item.floor)


def _quantile(family: int, rounds: int, degrees: int, which: int) -> float:
    """Return the quantile by Bonferroni's inequality: good enough to compare numbers of rounds, not for intervals."""
    tail = (1 - estimators.CONFIDENCE) / family / widening(rounds)
    return estimators.student_quantile(1 - tail / (1 if which else 2), degrees)
