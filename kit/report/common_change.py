"""Whose a change is, in sentences: one machine's, or what machines of a class have in common."""

from __future__ import annotations

from collections.abc import Sequence

from kit.analysis.common_change import COMMON, MACHINES, SOME, CommonChange
from kit.report import units
from kit.report.shown import shown

_MOST = 5


def common_lines(found: Sequence[CommonChange]) -> list[str]:
    """A sentence for each change."""
    return [_line(item) for item in shown(tuple(found))]


def _line(item: CommonChange) -> str:
    sizes = [change.change.after / change.change.before for change in item.changes]
    size = " … ".join(dict.fromkeys(map(units.percent, (min(sizes), max(sizes)))))
    begin, end = max(one.between[0] for one in item.changes), min(one.between[1] for one in item.changes)
    verb = "rose" if item.up else "fell"
    when = f"{verb} by {size} between {units.moment(begin)} and {units.moment(end)} UTC"
    return f"{_who(item)} {when}: {_why(item)}"


def _who(item: CommonChange) -> str:
    names = [change.machine for change in item.changes]
    if len(names) == 1:
        return f"{names[0]}, of {item.watched} machine{'s' if item.watched != 1 else ''} of {item.machine_class},"
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{len(names)} of {item.watched} machines of {item.machine_class} ({', '.join(names[:_MOST])}{more})"


def _why(item: CommonChange) -> str:
    shared = f"; theirs and no other's: {'; '.join(item.shared)}" if item.shared else ""
    if item.whose == MACHINES:
        return "that machine's own, not the driver's or the kernel's: the others would have shown it"
    if item.whose == COMMON:
        return f"not one machine's: what they have in common, the driver, the kernel or what was built{shared}"
    if item.whose == SOME:
        return f"some and not most{shared or '; no recorded fact tells them from the others'}"
    return "whose it is can't be told from fewer than 3 machines"
