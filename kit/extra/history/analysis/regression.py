"""Whether a threshold is exceeded: in this session, beyond noise, or by a confirmed change in the history. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.runs.compare import Comparison
from kit.analysis.session.entry import DifferingVersion
from kit.analysis.session.threshold import Threshold, rounds_note
from kit.analysis.stats.estimate import LESS, MORE
from kit.extra.history.analysis.changepoint import CONFIRM, Change
from kit.extra.history.analysis.series import Series

GOOD, UNDECIDED, SUSPECT, OVER, REGRESSION, MISSING = (
    "good", "undecided", "suspect", "over", "regression", "missing",
)  # fmt: skip
#: What fails a night: any penalty above its limit, or only a penalty that has changed to a level above it.
LIMIT, CHANGE = "limit", "change"
RULES = (LIMIT, CHANGE)


@dataclass(frozen=True)
class Rule:
    """A rule for thresholds. ``on``: one of RULES. ``confirm``: number of sessions at a new level that confirm a
    change. ``family``: number of thresholds judged in one night. If no limit is exceeded, all pass with 95 %
    probability."""

    on: str = LIMIT
    confirm: int = CONFIRM
    family: int = 1


@dataclass(frozen=True)
class Finding:
    """The result of one threshold at one point in one session, with the sentence that gives the reason.

    ``good``: the whole interval lies below the limit. ``undecided``: the interval contains the limit. ``suspect``: the
    individual interval lies above, but the simultaneous one does not; or too few sessions confirm a change. ``over``:
    the simultaneous interval lies above. ``regression``: over, and the series rose to a level above the limit.
    ``missing``: not measured. ``fails``: this finding fails the night."""

    threshold: Threshold
    status: str
    why: str
    comparison: Comparison | None = None
    series: Series | None = None
    changes: tuple[Change, ...] = ()
    fails: bool = False


def judge(
    threshold: Threshold, comparison: Comparison, series: Series, changes: Sequence[Change], rule: Rule = Rule()
) -> Finding:
    """Return the finding. ``series`` ends with the session of ``comparison``."""
    status, why = _judge(threshold, comparison, series, changes, rule)
    fails = status == REGRESSION or (status == OVER and rule.on == LIMIT)
    return Finding(threshold, status, why, comparison, series, tuple(changes), fails)


def missing(threshold: Threshold, why: str) -> Finding:
    return Finding(threshold, MISSING, why)


def _judge(
    threshold: Threshold, comparison: Comparison, series: Series, changes: Sequence[Change], rule: Rule
) -> tuple[str, str]:
    within = threshold.judge(comparison)
    if within == LESS:
        return GOOD, "the whole interval is below the limit"
    if within != MORE:
        why = "the limit lies within the interval" if comparison.low is not None else "one run has no interval"
        return UNDECIDED, rounds_note(comparison.n) or why
    rise = _find_rise(threshold, series, changes, rule)
    if rise and _over_among(threshold, comparison, rule):
        return REGRESSION, rise
    if rise or rule.on == LIMIT:
        return _judge_alone(threshold, comparison, series, rule)
    return _await(threshold, series, changes, rule)


def _find_rise(threshold: Threshold, series: Series, changes: Sequence[Change], rule: Rule) -> str:
    """Return how the series rose to the level where it is, in words; '' if it did not, or not above the limit.

    A level of fewer than ``confirm`` sessions is none yet, since one session may be noisy. A fall from the level counts
    from then on, too."""
    levels = [change for change in changes if change.sessions >= rule.confirm]
    level = levels[-1].after if levels else 0.0
    risen = [
        change
        for change in levels
        if change.confirmed and change.up and change.after > threshold.limit and change.before < level
    ]
    if not risen or level <= threshold.limit:
        return ""
    rise = risen[-1]
    version_texts = [str(version) for version in rise.differs if isinstance(version, DifferingVersion)]
    last = "the last " if rise is changes[-1] else ""
    then = "" if rise is levels[-1] else f", then {_percent(level)}"
    return (
        f"{_percent(rise.before)} before, {_percent(rise.after)} in {last}{rise.sessions} sessions{then} "
        f"(since {'; '.join((series.entries[rise.index].session, *version_texts))})"
    )


def _over_among(threshold: Threshold, comparison: Comparison, rule: Rule) -> bool:
    """Return whether the penalty is above the limit after correcting for the number of thresholds."""
    return (comparison.low_among(rule.family) or 0.0) > threshold.limit


def _judge_alone(threshold: Threshold, comparison: Comparison, series: Series, rule: Rule) -> tuple[str, str]:
    """Judge by the limit alone, whatever the history."""
    over = _over(threshold, series)
    since = f"{over} sessions in a row" if over > 1 else "this session"
    if _over_among(threshold, comparison, rule):
        return OVER, f"the whole interval is above the limit, in {since}"
    return SUSPECT, f"above the limit, but not after correcting for {rule.family} thresholds, in {since}"


def _await(threshold: Threshold, series: Series, changes: Sequence[Change], rule: Rule) -> tuple[str, str]:
    """Return the finding above the limit without a confirmed change."""
    over = _over(threshold, series)
    if over < rule.confirm:
        return (
            SUSPECT,
            f"above the limit in {over} session{'s in a row' if over > 1 else ''}; {rule.confirm} in a row would count",
        )
    fresh = [change for change in changes if change.up and not change.confirmed]
    if fresh:
        return SUSPECT, f"a change {fresh[-1].sessions} sessions ago; {rule.confirm} at the new level would count"
    if over == len(series.entries):
        return OVER, f"above the limit since this series began, {over} sessions ago: no change, so no regression"
    return SUSPECT, f"above the limit in {over} sessions in a row, but no change point separates them from those before"


def _over(threshold: Threshold, series: Series) -> int:
    """Return how many sessions in a row, this one included, lie above the limit with their whole interval."""
    count = 0
    for entry in reversed(series.entries):
        if threshold.judge(entry.outcome.comparison) != MORE:
            break
        count += 1
    return count


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+z.1f} %"
