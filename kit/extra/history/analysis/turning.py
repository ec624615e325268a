"""Which sessions of a history say when a penalty changed: they stay when old sessions are removed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kit.analysis.session.entry import Entry
from kit.extra.history.analysis.changepoint import CONFIRM, find_changes
from kit.extra.history.analysis.series import split


def find_turning(entries: Iterable[Entry], across: Sequence[str] = (), confirm: int = 0) -> dict[str, str]:
    """Return the sessions at and next to each change point, by id, with the change in words; also those of
    unconfirmed changes. ``entries``: of one scenario and metric, of all arms. ``across``: as for ``split``.
    ``confirm``: sessions that confirm a change, 0 for CONFIRM."""
    confirm = confirm or CONFIRM
    histories: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        comparison = entry.outcome.comparison
        histories.setdefault((comparison.arm, comparison.baseline, comparison.point), []).append(entry)
    reasons: dict[str, str] = {}
    for (arm, baseline, point), arm_entries in histories.items():
        at = f" at {point}" if point else ""
        for series in split(arm_entries, across):
            for change in find_changes(series, confirm):
                moment = series.entries[change.index].session
                for near in series.entries[max(change.index - 1, 0) : change.index + 2]:
                    reasons.setdefault(near.session, f"change of {arm} / {baseline}{at} at {moment}")
    return reasons
