"""Keeps the run order of a series: chosen anew, a run that takes nearly the shortest time for slices would begin a
series whenever its pilot run is a little faster or slower."""

from __future__ import annotations

from contextlib import suppress

from kit.core.errors import KitError
from kit.host.machine import Host
from kit.model.fact import RUN_ORDER, RUN_ORDER_WHY
from kit.model.session import DONE, Session
from kit.session.plan.interleave_policy import not_worth, ordered_as, undecided, why_not
from kit.session.prepared import Prepared
from kit.store import SessionFilter, Store
from kit.store.schema.tables import machine_of

#: Sessions of the title that are searched for the last one with the same work.
_SEARCHED = 20
#: Fields of a request that a choice of the run order rests on. One that differs is the user's change.
_WORK = (
    "scenario", "params", "command", "commands", "source", "prepare", "cache", "fresh", "load", "precision", "guest",
    "interleave",
)  # fmt: skip
_AS_BEFORE = "as before in this series: "


def keep_order(session: Session, prepared: Prepared, host: Host, store: Store) -> Session:
    """Return the session with the run order of the last finished one with its title, machine and work. Unchanged
    without one, or if the user names an order, or if its arms can't be interleaved."""
    if not undecided(session) or not_worth(prepared.plan) or why_not(prepared, host):
        return session
    with suppress(KitError):  # an unreadable store prevents no session
        before = _find_before(session, store)
        if before:
            why = RUN_ORDER_WHY.text(before.facts).removeprefix(_AS_BEFORE)
            return ordered_as(session, {**before.facts, RUN_ORDER_WHY.key: f"{_AS_BEFORE}{why}"})
    return session


def _find_before(session: Session, store: Store) -> Session | None:
    series = SessionFilter(session.title, machines=(machine_of(session.facts),), status=DONE)
    for head in store.list(series, _SEARCHED):
        chosen = RUN_ORDER.text(head.facts) and head.plan is not None and not not_worth(head.plan)
        if chosen and all(getattr(head.request, name) == getattr(session.request, name) for name in _WORK):
            return head
    return None
