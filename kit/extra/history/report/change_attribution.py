"""Attribution of a change, in sentences: to one machine, or to shared conditions of a class."""

from __future__ import annotations

from collections.abc import Sequence

from kit.core.listing import listed
from kit.extra.history.analysis.change_attribution import COMMON, MACHINES, SOME, CommonChange
from kit.report.format import units
from kit.report.format.sanitize import shown

_MOST = 5


def common_lines(found: Sequence[CommonChange]) -> list[str]:
    """Return a sentence for each change."""
    return [_line(item) for item in shown(tuple(found))]


def fleet_lines(found: Sequence[CommonChange], watched: int, there: int = 0) -> list[str]:
    """Return the same for a whole fleet, which may have no change. ``watched``: machines with enough sessions to show
    one; ``there``: number of machines from which they were drawn, 0 if they are all."""
    if found or watched:
        drawn = f" (a sample of {there:,})" if there else ""
        return common_lines(found) or [f"no significant change on any of {_machines(watched)}{drawn}"]
    return ["no machine has enough sessions to find a change"]


def _machines(count: int) -> str:
    return f"{count} machine{'s' if count != 1 else ''}"


def _line(item: CommonChange) -> str:
    sizes = [change.change.after / change.change.before for change in item.changes]
    size = " to ".join(dict.fromkeys(map(units.percent, (min(sizes), max(sizes)))))
    begin, end = item.between
    verb = "rose" if item.up else "fell"
    one, other = units.moment(begin), units.moment(end)
    when = f"{verb} by {size} {f'between {one} and {other}' if one != other else f'about {one}'} UTC"
    others = len(item.following)
    too = f", {others} other{'s' if others > 1 else ''} with less confidence" if others else ""
    return f"{_who(item)} {when}{too}: {_why(item)}"


def _who(item: CommonChange) -> str:
    names = [change.machine for change in item.changes]
    if len(names) == 1:
        drawn = f" (a sample of {item.there:,})" if item.there else ""
        return f"{names[0]}, of {_machines(item.watched)} of {item.machine_class}{drawn},"
    drawn = f"a sample of {item.there:,}: " if item.there else ""
    return f"{len(names)} of {_machines(item.watched)} of {item.machine_class} ({drawn}{listed(names, _MOST)})"


def _why(item: CommonChange) -> str:
    shared = f"; only these machines have: {'; '.join(item.shared)}" if item.shared else ""
    came = f"it came with {'; '.join(item.came_with)}" if item.came_with else ""
    if item.whose == MACHINES and came:
        return f"specific to that machine, or to a change that only it received: {came}"
    if item.whose == MACHINES:
        return "specific to that machine: a change of driver or kernel would show on the others too"
    if item.whose == COMMON:
        if came:
            return f"common to several machines: {came}"
        return f"common to several machines: look at the driver, the kernel and what was built{shared}"
    if item.whose == SOME:
        reason = f"; {came}" if came else shared or "; no recorded fact distinguishes them from the others"
        return f"significant on some machines, not on most{reason}"
    return f"attribution needs at least 3 machines{f'; {came}' if came else ''}"
