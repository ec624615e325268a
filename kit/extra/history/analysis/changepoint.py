"""Change points of a series: where the penalty moved to another level and stayed there. Pure.

``analysis.stats.divisive`` finds the places and assumes independent nights. Only places that remain significant if
nights depend on each other are kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

import numpy as np

from kit.analysis.session.entry import Differing, Entry, differences, version_changes
from kit.analysis.stats.estimate import Interval, as_ratio
from kit.extra.history.analysis.dependence import LEVEL, find_chance, find_dependence, find_shift, keep_points
from kit.extra.history.analysis.divisive import find_points
from kit.extra.history.analysis.series import Series, split
from kit.model.session import Request

#: Of the t test at a split. Of these ``dependence`` leaves those that hold where nights depend on each other.
#: The split is where the test is most significant, so a false alarm is likelier than this (benchmarks/proofs/nightly.py
#: counts them).
P = 0.0001
#: Sessions at the new level before it counts: one noisy night is no change.
CONFIRM = 3


def confirming(request: Request) -> int:
    """Return the number of sessions that confirm a change in the history of sessions so requested."""
    return request.confirm or CONFIRM


@dataclass(frozen=True)
class Change:
    """A change of level. ``index``: the first entry of the new one. ``before`` and ``after``: mean ratios up to the
    neighbouring changes; a level before it that is too short to confirm a change is passed over, if the one before that
    differs too (a rise in two steps). ``shift``: after over before, with the 95 % interval that the scatter of the
    sessions and their dependence give (that the place of the change was sought is not in it). ``sessions``: how many
    the new level rests on. ``own`` and ``base``: the same of the arm's own time and its baseline's. ``differs``:
    commits and labels that changed there, the kit's version, and recorded conditions as far as a series allows any
    to."""

    index: int
    before: float
    after: float
    shift: Interval | None
    p: float
    sessions: int
    confirmed: bool
    own: Interval | None
    base: Interval | None
    differs: tuple[Differing, ...]

    @property
    def up(self) -> bool:
        return self.after > self.before


@dataclass(frozen=True)
class ChangeHistory:
    """One series with its changes, and the number of sessions that confirm a change."""

    series: Series
    changes: tuple[Change, ...]
    confirm: int

    @property
    def missing(self) -> int:
        """Return how many sessions the series lacks to show a confirmed change."""
        return max(0, 2 * self.confirm - len(self.series.entries))


def track(entries: Sequence[Entry], session: str, across: Iterable[str] = (), confirm: int = CONFIRM) -> ChangeHistory:
    """Return the series of a session's entry, up to that entry. Raises ValueError if the session has no entry."""
    for series in split(entries, across):
        names = [entry.session for entry in series.entries]
        if session in names:
            series_until = replace(series, entries=series.entries[: names.index(session) + 1])
            return ChangeHistory(series_until, find_changes(series_until, confirm), confirm)
    raise ValueError(f"{session} has no entry")


def find_changes(series: Series, confirm: int = CONFIRM) -> tuple[Change, ...]:
    """Return the changes of a series' penalty, oldest first, including unconfirmed ones."""
    ratios = [entry.ratio for entry in series.entries]
    if len(ratios) < 3:
        return ()
    points = list(keep_points(ratios, find_points(ratios, P)).items())
    places = [index for index, _ in points]
    edges = [0, *places, len(ratios)]
    means = [entry.outcome.mean for entry in series.entries], [entry.outcome.base_mean for entry in series.entries]
    arm_dependence, base_dependence = (_dependence(values, places) for values in means)
    whole = _dependence(ratios, places)
    changes = []
    for i, (index, chance) in enumerate(points, 1):
        after = slice(index, edges[i + 1])
        before, chance = _level_before(ratios, edges, i, confirm, chance)
        sessions = min(after.stop - after.start, before.stop - before.start)
        earlier, later = series.entries[before.stop - 1], series.entries[index]
        changes.append(
            Change(
                index,
                fmean(ratios[before]),
                fmean(ratios[after]),
                _shift(ratios, before, after, whole),
                chance,
                after.stop - after.start,
                sessions >= confirm,
                _shift(means[0], before, after, arm_dependence),
                _shift(means[1], before, after, base_dependence),
                (
                    *version_changes(earlier.versions, later.versions),
                    *_kit(earlier.kit_version, later.kit_version),
                    *differences(earlier.conditions, later.conditions),
                ),
            )
        )
    return tuple(changes)


def _level_before(
    ratios: Sequence[float], edges: Sequence[int], new: int, confirm: int, chance: float
) -> tuple[slice, float]:  # fmt: skip
    """Return the level that a new one is compared with, and the p of their difference. ``edges``: where levels begin,
    and the end. ``new``: number of the new level. ``chance``: the p of the difference from the level just before."""
    levels = [slice(*edge) for edge in pairwise(edges)]
    previous = levels[new - 1]
    long = [level for level in levels[:new] if level.stop - level.start >= confirm]
    if previous in long or not long:
        return previous, chance
    data, dependence = np.asarray(ratios, float), find_dependence(ratios, edges[1:-1])
    long_chance = find_chance(data[long[-1]], data[levels[new]], dependence)
    return (long[-1], long_chance) if long_chance <= LEVEL else (previous, chance)


def _dependence(values: Sequence[float | None], places: Sequence[int]) -> float:
    """Return the dependence of logarithms (see find_dependence) without levels, which begin at ``places``. Unknown
    values are left out."""
    is_known = [bool(value) for value in values]
    moved = [sum(is_known[:place]) for place in places]
    return find_dependence([math.log(value) for value in values if value], moved)


def _shift(values: Sequence[float | None], earlier: slice, later: slice, dependence: float) -> Interval | None:
    before, after = ([math.log(value) for value in values[part] if value] for part in (earlier, later))
    return as_ratio(find_shift(before, after, dependence)) if before and after else None


def _kit(before: str, after: str) -> tuple[Differing, ...]:
    return (Differing("kit", before, after),) if before != after else ()
