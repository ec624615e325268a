"""A session that machines shared, for people: a note, and the answer for machines like them."""

from __future__ import annotations

from collections.abc import Iterator

from kit.analysis.session.machines import machines_of
from kit.core.listing import listed
from kit.extra.fleet.analysis.split_session import answer_split
from kit.extra.fleet.report.cost import render_fleet_cost
from kit.model.session import Session

#: Workers of a machine that are listed.
_NAMED = 3


def fleet_notes(session: Session) -> Iterator[str]:
    """Return what the figures of a session on several machines are of."""
    machines = machines_of(session)
    if len(machines) == 1:
        (workers,) = machines.values()
        yield (
            f"The rounds ran on 1 machine, by the worker{'s' if len(workers) > 1 else ''} "
            f"{listed(workers, _NAMED)}: these figures describe that machine only."
        )
    elif machines:
        yield (
            f"The rounds ran on {len(machines)} machines; these figures describe those machines only. For similar "
            f"machines: kit fleet show {session.id}"
        )


def answer_of_machines(session: Session) -> str:
    """Return the answer for all machines like those of the session; '' if one alone ran it: it has no other figure
    than the session's."""
    several = sum(map(len, machines_of(session).values())) > 1
    return render_fleet_cost(answer_split(session)) if several else ""
