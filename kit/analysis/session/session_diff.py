"""Two sessions side by side: whether a penalty is the same in both. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kit.analysis.runs.compare import Comparison
from kit.analysis.runs.run_table import Runs, differing
from kit.analysis.session.analyse import Analysis, whole_real
from kit.analysis.session.entry import Differing, conditions, differences, version_changes, versions
from kit.analysis.stats import estimators
from kit.analysis.stats.estimate import NO_INTERVAL, Interval, Verdict, as_ratio
from kit.model.session import Session


@dataclass(frozen=True)
class PenaltyChange:
    """A penalty in session A and in session B. ``change``: B's over A's with its 95 % interval, by Welch's t test on
    the logarithms of the two ratios, each with the error that its own session's noise gives it (Welch 1947); the
    sessions are independent, so rounds do not pair. ``own`` and
    ``base``: the same of the arm's and the baseline's own times, which nothing frees of the machine's state.
    ``verdict`` is that of the interval alone, ``verdict_all`` allows for all ``family`` arms at once."""

    before: Comparison
    after: Comparison
    change: Interval | None
    verdict: Verdict
    own: Interval | None
    base: Interval | None
    verdict_all: Verdict = NO_INTERVAL
    family: int = 1
    unlike: tuple[str, ...] = ()  # digests that differ: then there is no change to speak of


@dataclass(frozen=True)
class SessionDiff:
    moved: tuple[PenaltyChange, ...]
    differs: tuple[Differing, ...]
    only_before: tuple[str, ...]  # arms that one session alone has
    only_after: tuple[str, ...]


def compare_sessions(before: tuple[Session, Analysis], after: tuple[Session, Analysis]) -> SessionDiff:
    """Compare real time of the whole run, for every arm and point that both sessions have with the same baseline."""
    one, two = ({_key(item): item for item in whole_real(found.comparisons)} for _, found in (before, after))
    shared = [key for key in one if key in two and not one[key].control]
    moved = tuple(_moved(one[key], two[key], before[1].runs, after[1].runs, len(shared)) for key in shared)
    named = version_changes(*map(versions, (before[0], after[0])))
    differs = named + differences(conditions(before[0]), conditions(after[0]))
    return SessionDiff(moved, differs, _lacking(one, two), _lacking(two, one))


def _key(item: Comparison) -> tuple[str, str, str]:
    return item.arm, item.baseline, item.point


def _lacking(mine: dict[tuple[str, str, str], Comparison], theirs: dict[tuple[str, str, str], Comparison]) -> (
    tuple[str, ...]
):  # fmt: skip
    return tuple(dict.fromkeys(item.arm for key, item in mine.items() if key not in theirs and not item.control))


def _moved(one: Comparison, two: Comparison, before: Runs, after: Runs, family: int) -> PenaltyChange:
    unlike = differing(before.samples((one.arm, one.point))[0].digests, after.samples((two.arm, two.point))[0].digests)
    own, base = (_own(name, one, two, before, after) for name in (one.arm, one.baseline))
    if unlike:
        return PenaltyChange(one, two, None, NO_INTERVAL, own, base, unlike=unlike)
    centres = one.centre, two.centre
    if centres[0] is None or centres[1] is None:
        return PenaltyChange(one, two, None, NO_INTERVAL, own, base)
    change = as_ratio(estimators.welch(centres[0], centres[1]))
    together = as_ratio(estimators.welch(centres[0], centres[1], estimators.family_confidence(family)))
    return PenaltyChange(one, two, change, change.beside(1.0), own, base, together.beside(1.0), family)


def _own(arm: str, one: Comparison, two: Comparison, before: Runs, after: Runs) -> Interval | None:
    logs = []
    for runs, item in ((before, one), (after, two)):
        values = runs.values((arm, item.point), item.phase, item.metric)
        logs.append(np.log(values[values > 0]))
    return estimators.welch_ratio(logs[0], logs[1])
