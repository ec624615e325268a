"""The ranking: all arms that a user could pick against one reference, and which of them a session can't tell apart.
Pure.

Every two arms are compared within the blocks that hold both, across filesystems and engines; intervals hold for all
pairs at once, so that a row, the ranks and the groups never contradict each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from string import ascii_lowercase

import numpy as np

from kit.analysis import pool, stats
from kit.analysis.columns import Key, Runs
from kit.analysis.compare import is_control
from kit.analysis.paired import Paired, find_adjusting, pair_up
from kit.analysis.stats import Interval
from kit.core.errors import UsageError
from kit.model.arm import known_arm
from kit.model.drivers import registered
from kit.model.metric import described

#: What a ranking is by, unless the user says otherwise: time until the data is safe.
WHOLE, REAL = "whole", "real"
MORE_IS_BETTER = "more"
#: The common choices, of which the first that ran is the reference.
_COMMON = tuple(f"layer:{words}" for words, driver in registered() if driver.usual)


@dataclass(frozen=True)
class Difference:
    """One arm over another: ``ratio`` with the 95 % interval of itself alone, and the one that holds for all pairs of
    the ranking at once. Intervals are None where a single block holds both."""

    arm: str
    other: str
    ratio: float
    low: float | None
    high: float | None
    low_all: float | None
    high_all: float | None
    n: int

    @property
    def told(self) -> bool:
        """True where the two differ, with all pairs looked at."""
        return self.low_all is not None and self.high_all is not None and not self.low_all <= 1 <= self.high_all


@dataclass(frozen=True)
class RankRow:
    """One arm. ``against``: it over the reference, None for the reference itself. ``seconds`` (or the metric's unit) is
    the mean of its ``n`` runs, ``typical`` the reference's mean times the ratio: it keeps the order of the ratios where
    a covariate or a few bad runs move the mean.

    ``rank_low`` to ``rank_high``: the ranks that it may have, of all arms at once with 95 % (Mogstad et al. 2024): 1
    and as many as are told to be better; ``group``: letters, and arms that share one can't be told apart (Piepho 2004).
    An arm that is no pick (``bare``) has neither: 0 and ''.
    """

    arm: str
    pick: bool
    seconds: float
    typical: float
    against: Difference | None
    rank_low: int
    rank_high: int
    group: str
    n: int


@dataclass(frozen=True)
class Ranking:
    """``rows`` from the best to the worst, those that are no picks among them. ``filesystems``: bare on each further
    filesystem over bare on the first, which is what the filesystem alone costs. ``covariate``: what the ratios are
    adjusted for. ``pairs``: every two arms that were looked at. ``unranked``: what ran, but has no ratio to the
    reference: no block has both, or figures of 0."""

    metric: str
    unit: str
    better: str
    phase: str
    point: str
    reference: str
    rows: tuple[RankRow, ...]
    filesystems: tuple[Difference, ...]
    pairs: tuple[Difference, ...]
    covariate: str = ""
    unranked: tuple[str, ...] = ()

    @property
    def picks(self) -> tuple[RankRow, ...]:
        return tuple(row for row in self.rows if row.pick)

    def better_than(self, arm: str) -> frozenset[str]:
        """The picks that are told to be better than this one."""
        picks = {row.arm for row in self.picks}
        found = {pair.other for pair in self.pairs if pair.arm == arm and pair.told and not self._wins(pair)}
        found |= {pair.arm for pair in self.pairs if pair.other == arm and pair.told and self._wins(pair)}
        return frozenset(found & picks)

    def _wins(self, pair: Difference) -> bool:
        return _beats(pair, self.better)

    @property
    def typical(self) -> bool:
        """True where ratios are those of typical blocks, without a tenth at either end."""
        return any(pair.n >= stats.ROBUST_FROM for pair in self.pairs)


def rank(runs: Runs, arms: Sequence[str], metric: str = "", reference: str = "") -> tuple[Ranking, ...]:
    """One for each point that holds two arms or more, over the whole run. ``metric``: ``whole`` where it was measured,
    else ``real``. Raises UsageError for a metric or a reference that is not there."""
    found = [made for point in runs.points if (made := _rank(runs, arms, point, metric, reference))]
    if not found and (metric or reference):
        _explain(runs, arms, metric, reference)
    return tuple(found)


def _explain(runs: Runs, arms: Sequence[str], metric: str, reference: str) -> None:
    ran = [arm for arm in arms if any(runs.has((arm, point)) for point in runs.points)]
    if reference and reference not in ran:
        raise UsageError(f"reference {reference}: no run of it succeeded", f"use one of: {', '.join(ran)}")
    if metric and len(ran) > 1:
        raise UsageError(
            f"metric {metric}: not measured in two arms or more", f"for example {WHOLE}, {REAL}, cpu_total"
        )


def _rank(runs: Runs, arms: Sequence[str], point: str, metric: str, reference: str) -> Ranking | None:
    keys = [(arm, point) for arm in arms if runs.has((arm, point)) and not is_control(arm)]
    picks, grounds = split_picks([arm for arm, _ in keys])
    keys = [key for key in keys if key[0] in (*picks, *grounds)]
    if len(keys) < 2 or (reference and (reference, point) not in keys):
        return None
    phase = runs.phases(keys)[-1]
    metric = metric or (WHOLE if _measured(runs, keys, phase, WHOLE) else REAL)
    keys = [key for key in keys if _measured(runs, [key], phase, metric)]
    picks, grounds = ([arm for arm in names if (arm, point) in keys] for names in (picks, grounds))
    if not picks or len(keys) < 2:
        return None
    figure = runs.reported(keys, phase).get(metric) or described(metric)
    better = figure.better
    wanted = list(combinations(picks, 2)) + [(pick, ground) for ground in grounds for pick in picks]
    wanted += [(grounds[0], other) for other in grounds[1:]]
    adjusting = find_adjusting(runs, keys, phase, metric)
    pairs = [pair_up(runs, ((one, point), (other, point)), phase, metric, adjusting) for one, other in wanted]
    told = _tell([pair for pair in pairs if pair and pair.positive])
    chosen = reference or _choose(picks, told, better)
    rows = _rows(runs, keys, phase, metric, picks, told, chosen, better)
    first = grounds[0] if grounds else ""
    across = tuple(told[other, first] for other in grounds[1:] if (other, first) in told)
    return Ranking(
        metric, figure.unit, better, phase, point, chosen, rows, across,
        tuple(told[pair] for pair in wanted if pair in told), adjusting.name if adjusting else "",
        tuple(arm for arm, _ in keys if arm not in {row.arm for row in rows}),
    )  # fmt: skip


def split_picks(arms: Sequence[str]) -> tuple[list[str], list[str]]:
    """Arms that a user could pick, and ``bare`` on each filesystem, which is no choice but shows what one costs.

    A pick is whatever runs a build in a container on a driver; ``runtime`` is a rung of the ladder. Where nothing is,
    all arms are: filesystems compared by ``bare``, unions, imported figures."""
    parsed = {arm: known_arm(arm) for arm in arms if not is_control(arm)}
    picks = [arm for arm, made in parsed.items() if made and made.contained and made.placement != "runtime"]
    if not picks:
        return list(parsed), []
    return picks, [arm for arm, made in parsed.items() if made and made.placement in ("bare", "host")]


def _measured(runs: Runs, keys: Sequence[Key], phase: str, metric: str) -> bool:
    return all(bool(np.isfinite(runs.values(key, phase, metric)).any()) for key in keys)


def _tell(pairs: Sequence[Paired]) -> dict[tuple[str, str], Difference]:
    """Every pair, either way round, with intervals that hold for all of them at once."""
    found = {}
    for pair, centre in zip(pairs, pool.share([pair.ratio() for pair in pairs], len(pairs)), strict=True):
        wide = pair.widen(centre)
        one, other = pair.arm[0], pair.base[0]
        alone, together = stats.as_ratio(wide.interval()), stats.as_ratio(wide.interval_together())
        found[one, other] = _difference(one, other, alone, together)
        found[other, one] = _difference(other, one, _turned(alone), _turned(together))
    return found


def _difference(arm: str, other: str, alone: Interval, together: Interval) -> Difference:
    return Difference(
        arm, other, alone.estimate, alone.low, alone.high, together.low, together.high, alone.n,
    )  # fmt: skip


def _turned(ratio: Interval) -> Interval:
    low, high = (
        None if end is None else 1 / end if end else stats.exp(stats.LARGEST) for end in (ratio.high, ratio.low)
    )
    return Interval(1 / ratio.estimate, low, high, ratio.n)


def _choose(picks: Sequence[str], told: dict[tuple[str, str], Difference], better: str) -> str:
    """The first common choice that ran, else the pick that is best: that beats most others."""
    for name in _COMMON:
        if name in picks:
            return name
    wins = {one: sum(_beats(told.get((one, other)), better) for other in picks) for one in picks}
    return max(picks, key=lambda one: wins[one])


def _beats(item: Difference | None, better: str) -> bool:
    return item is not None and (item.ratio > 1 if better == MORE_IS_BETTER else item.ratio < 1)


def _rows(
    runs: Runs, keys: Sequence[Key], phase: str, metric: str, picks: Sequence[str],
    told: dict[tuple[str, str], Difference], reference: str, better: str,
) -> tuple[RankRow, ...]:  # fmt: skip
    point = keys[0][1]
    base = _mean(runs, (reference, point), phase, metric)
    known = [arm for arm, _ in keys if arm == reference or (arm, reference) in told]
    ratio = {arm: told[arm, reference].ratio if arm != reference else 1.0 for arm in known}
    order = sorted(known, key=lambda arm: ratio[arm], reverse=better == MORE_IS_BETTER)
    listed = [arm for arm in order if arm in picks]
    apart = {(one, other) for one in listed for other in listed if (pair := told.get((one, other))) and pair.told}
    letters = find_letters(listed, apart)
    rows = []
    for arm in order:
        lost = sum((arm, other) in apart and _beats(told[other, arm], better) for other in listed)
        won = sum((arm, other) in apart and _beats(told[arm, other], better) for other in listed)
        pick = arm in listed
        rows.append(
            RankRow(
                arm, pick, _mean(runs, (arm, point), phase, metric), base * ratio[arm], told.get((arm, reference)),
                1 + lost if pick else 0, len(listed) - won if pick else 0, letters.get(arm, ""),
                int(np.isfinite(runs.values((arm, point), phase, metric)).sum()),
            )
        )  # fmt: skip
    return tuple(rows)


def _mean(runs: Runs, key: Key, phase: str, metric: str) -> float:
    return float(np.nanmean(runs.values(key, phase, metric)))


def find_letters(arms: Sequence[str], apart: set[tuple[str, str]]) -> dict[str, str]:
    """The compact letter display: two arms share a letter if and only if they are not told apart, with few letters
    (insert and absorb; Piepho 2004). ``arms`` from the best to the worst, ``a`` for the best."""
    columns = [set(arms)]
    for one, other in combinations(arms, 2):
        if (one, other) not in apart and (other, one) not in apart:
            continue
        cut = [column - {name} for column in columns if {one, other} <= column for name in (other, one)]
        columns = [column for column in columns if not {one, other} <= column]
        for column in cut:
            if not any(column <= kept for kept in columns):
                columns = [kept for kept in columns if not kept < column] + [column]
    place = {arm: i for i, arm in enumerate(arms)}
    columns.sort(key=lambda column: sorted(place[arm] for arm in column))
    return {arm: "".join(_letter(i) for i, column in enumerate(columns) if arm in column) for arm in arms}


def _letter(number: int) -> str:
    return ascii_lowercase[number] if number < len(ascii_lowercase) else f"({number + 1})"
