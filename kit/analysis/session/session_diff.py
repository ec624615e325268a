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
    before_by_key, after_by_key = (
        {_key(comparison): comparison for comparison in whole_real(analysis.comparisons)}
        for _, analysis in (before, after)
    )
    shared = [key for key in before_by_key if key in after_by_key and not before_by_key[key].control]
    moved = tuple(
        _moved(before_by_key[key], after_by_key[key], before[1].runs, after[1].runs, len(shared)) for key in shared
    )
    changed_versions = version_changes(*map(versions, (before[0], after[0])))
    differs = changed_versions + differences(conditions(before[0]), conditions(after[0]))
    return SessionDiff(moved, differs, _lacking(before_by_key, after_by_key), _lacking(after_by_key, before_by_key))


def _key(comparison: Comparison) -> tuple[str, str, str]:
    return comparison.arm, comparison.baseline, comparison.point


def _lacking(comparisons: dict[tuple[str, str, str], Comparison], others: dict[tuple[str, str, str], Comparison]) -> (
    tuple[str, ...]
):  # fmt: skip
    return tuple(
        dict.fromkeys(
            comparison.arm for key, comparison in comparisons.items() if key not in others and not comparison.control
        )
    )


def _moved(first: Comparison, second: Comparison, before: Runs, after: Runs, family: int) -> PenaltyChange:
    unlike = differing(
        before.samples((first.arm, first.point))[0].digests, after.samples((second.arm, second.point))[0].digests
    )
    arm_change, baseline_change = (_own(name, first, second, before, after) for name in (first.arm, first.baseline))
    if unlike:
        return PenaltyChange(first, second, None, NO_INTERVAL, arm_change, baseline_change, unlike=unlike)
    centres = first.centre, second.centre
    if centres[0] is None or centres[1] is None:
        return PenaltyChange(first, second, None, NO_INTERVAL, arm_change, baseline_change)
    change = as_ratio(estimators.welch(centres[0], centres[1]))
    together = as_ratio(estimators.welch(centres[0], centres[1], estimators.family_confidence(family)))
    return PenaltyChange(
        first, second, change, change.beside(1.0), arm_change, baseline_change, together.beside(1.0), family
    )


def _own(arm: str, first: Comparison, second: Comparison, before: Runs, after: Runs) -> Interval | None:
    logs = []
    for runs, comparison in ((before, first), (after, second)):
        values = runs.values((arm, comparison.point), comparison.phase, comparison.metric)
        logs.append(np.log(values[values > 0]))
    return estimators.welch_ratio(logs[0], logs[1])
