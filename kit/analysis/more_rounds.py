"""How many more rounds an inconclusive arm needs for a verdict. Pure.

A round's standard deviation is known from few rounds. The range that follows holds its true value with 80 %
(chi-square, with the degrees of freedom of the estimate), and supposes that the ratio stays what it is.
"""

from __future__ import annotations

import math

from kit.analysis import stats
from kit.analysis.ranking import INCONCLUSIVE, Difference, Ranking, RankRow
from kit.analysis.stopping import widening

#: More rounds than anybody makes.
MOST = 1_000


def more_rounds(row: RankRow, ranking: Ranking) -> tuple[int, int, int] | None:
    """Return how many further rounds are needed until this arm is significantly different from the reference or
    equivalent to it: few, typical and many, each at least 1, and ``MOST`` at most.

    None where the arm has a verdict, has no interval, or where no number of rounds decides: what identical copies
    differ by over a whole session is too large for the margin."""
    item = row.against
    if row.verdict != INCONCLUSIVE or item is None or not item.spread:
        return None
    now = ranking.rounds or item.n
    smaller, larger = stats.spread_range(item.degrees)
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
    """Of the simultaneous 95 % interval (``which`` 0) or the 90 % one of two one-sided tests (1), as a logarithm."""
    degrees = item.degrees - stats.own_degrees(item.n) + stats.own_degrees(rounds)
    then, now = (
        _quantile(item.family, at if looks else 0, of, which) for at, of in ((rounds, degrees), (looks, item.degrees))
    )
    errors = item.quantiles[which] * then / now
    return math.hypot(errors * spread / math.sqrt(rounds), item.lasting[which] * item.floor)


def _quantile(family: int, rounds: int, degrees: int, which: int) -> float:
    """By Bonferroni's inequality: how one number of rounds compares with another, not what it needs."""
    tail = (1 - stats.CONFIDENCE) / family / widening(rounds)
    return stats.student_quantile(1 - tail / (1 if which else 2), degrees)
