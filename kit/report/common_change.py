"""Whose a change is, in sentences: one machine's, or what machines of a class have in common."""

from __future__ import annotations

from collections.abc import Sequence

from kit.analysis.common_change import COMMON, MACHINES, SOME, CommonChange
from kit.core.listing import listed
from kit.report import units
from kit.report.shown import shown

_MOST = 5


def common_lines(found: Sequence[CommonChange]) -> list[str]:
    """A sentence for each change."""
    return [_line(item) for item in shown(tuple(found))]


def fleet_lines(found: Sequence[CommonChange], watched: int, there: int = 0) -> list[str]:
    """The same of a fleet as a whole, which may have had none. ``watched``: machines with sessions enough to tell one;
    ``there``: of how many they were drawn, 0 where they are all."""
    if found or watched:
        drawn = f" (drawn of {there:,})" if there else ""
        return common_lines(found) or [f"no significant change on any of {_machines(watched)}{drawn}"]
    return ["no machine has sessions enough to find a change"]


def _machines(count: int) -> str:
    return f"{count} machine{'s' if count != 1 else ''}"


def _line(item: CommonChange) -> str:
    sizes = [change.change.after / change.change.before for change in item.changes]
    size = " … ".join(dict.fromkeys(map(units.percent, (min(sizes), max(sizes)))))
    begin, end = item.between
    verb = "rose" if item.up else "fell"
    one, other = units.moment(begin), units.moment(end)
    when = f"{verb} by {size} {f'between {one} and {other}' if one != other else f'about {one}'} UTC"
    others = len(item.following)
    too = f", {others} other{'s' if others > 1 else ''} less surely" if others else ""
    return f"{_who(item)} {when}{too}: {_why(item)}"


def _who(item: CommonChange) -> str:
    names = [change.machine for change in item.changes]
    if len(names) == 1:
        drawn = f" (drawn of {item.there:,})" if item.there else ""
        return f"{names[0]}, of {_machines(item.watched)} of {item.machine_class}{drawn},"
    drawn = f"drawn of {item.there:,}: " if item.there else ""
    return f"{len(names)} of {_machines(item.watched)} of {item.machine_class} ({drawn}{listed(names, _MOST)})"


def _why(item: CommonChange) -> str:
    shared = f"; theirs and no other's: {'; '.join(item.shared)}" if item.shared else ""
    came = f"it came with {'; '.join(item.came_with)}" if item.came_with else ""
    if item.whose == MACHINES and came:
        return f"that machine's own, or of what no other was given: {came}"
    if item.whose == MACHINES:
        return "that machine's own, not the driver's or the kernel's: the others would have shown it"
    if item.whose == COMMON:
        if came:
            return f"not one machine's: {came}"
        return f"not one machine's: what they have in common, the driver, the kernel or what was built{shared}"
    if item.whose == SOME:
        reason = f"; {came}" if came else shared or "; no recorded fact distinguishes them from the others"
        return f"significant on some and not on most{reason}"
    return f"attribution needs at least 3 machines{f'; {came}' if came else ''}"
