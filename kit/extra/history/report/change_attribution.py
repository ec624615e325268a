"""Attribution of a change, in sentences: to one machine, or to shared conditions of a class."""

from __future__ import annotations

from collections.abc import Sequence

from kit.core.listing import listed
from kit.extra.history.analysis.change_attribution import COMMON, MACHINES, SOME, CommonChange
from kit.report.format import units
from kit.report.format.sanitize import shown

_MOST = 5


def common_lines(changes: Sequence[CommonChange]) -> list[str]:
    """Return a sentence for each change."""
    return [_line(change) for change in shown(tuple(changes))]


def fleet_lines(changes: Sequence[CommonChange], watched: int, there: int = 0) -> list[str]:
    """Return the same for a whole fleet, which may have no change. ``watched``: machines with enough sessions to show
    one; ``there``: number of machines from which they were drawn, 0 if they are all."""
    if changes or watched:
        drawn = f" (a sample of {there:,})" if there else ""
        return common_lines(changes) or [f"no significant change on any of {_machines(watched)}{drawn}"]
    return ["no machine has enough sessions to find a change"]


def _machines(count: int) -> str:
    return f"{count} machine{'s' if count != 1 else ''}"


def _line(common: CommonChange) -> str:
    sizes = [change.change.after / change.change.before for change in common.changes]
    size = " to ".join(dict.fromkeys(map(units.percent, (min(sizes), max(sizes)))))
    begin, end = common.between
    verb = "rose" if common.up else "fell"
    first, last = units.moment(begin), units.moment(end)
    when = f"{verb} by {size} {f'between {first} and {last}' if first != last else f'about {first}'} UTC"
    others = len(common.following)
    too = f", {others} other{'s' if others > 1 else ''} with less confidence" if others else ""
    return f"{_who(common)} {when}{too}: {_why(common)}"


def _who(common: CommonChange) -> str:
    names = [change.machine for change in common.changes]
    if len(names) == 1:
        drawn = f" (a sample of {common.there:,})" if common.there else ""
        return f"{names[0]}, of {_machines(common.watched)} of {common.machine_class}{drawn},"
    drawn = f"a sample of {common.there:,}: " if common.there else ""
    return f"{len(names)} of {_machines(common.watched)} of {common.machine_class} ({drawn}{listed(names, _MOST)})"


def _why(common: CommonChange) -> str:
    shared = f"; only these machines have: {'; '.join(common.shared)}" if common.shared else ""
    coinciding = f"it came with {'; '.join(common.came_with)}" if common.came_with else ""
    if common.whose == MACHINES and coinciding:
        return f"specific to that machine, or to a change that only it received: {coinciding}"
    if common.whose == MACHINES:
        return "specific to that machine: a change of driver or kernel would show on the others too"
    if common.whose == COMMON:
        if coinciding:
            return f"common to several machines: {coinciding}"
        return f"common to several machines: look at the driver, the kernel and what was built{shared}"
    if common.whose == SOME:
        reason = f"; {coinciding}" if coinciding else shared or "; no recorded fact distinguishes them from the others"
        return f"significant on some machines, not on most{reason}"
    return f"attribution needs at least 3 machines{f'; {coinciding}' if coinciding else ''}"
