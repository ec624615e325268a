"""The answer for a fleet from stored sessions of many machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.fleet.answer import FleetAnswer, answer, settles
from kit.analysis.fleet.split_session import answer_split
from kit.analysis.session.entry import Entry
from kit.core.errors import UsageError
from kit.model.fact import makers
from kit.model.machine_class import class_of
from kit.model.session import DONE, Session
from kit.store.session_query import LOOKED_AT, SessionFilter
from kit.store.store import Store


@dataclass(frozen=True)
class FleetQuestion:
    """A question about a fleet. ``scenario``: a title, '' for that of the newest session, or one session that machines
    have shared. ``since``: Unix time. ``phase``: '' for the whole run."""

    scenario: str = ""
    machine_class: str = ""
    since: float | None = None
    phase: str = ""
    metric: str = "real"


def answer_fleet(store: Store, asked: FleetQuestion) -> FleetAnswer:
    """Return the answer. Raises UsageError if no session matches."""
    newest = store.list(SessionFilter(asked.scenario, status=DONE), 1)
    if not newest:
        return _answer_one(store, asked)
    title = newest[0].title
    wanted = SessionFilter(title, status=DONE, since=asked.since)
    heads = store.newest_of_each(wanted, 1)
    entries = _entries(store, asked, heads)
    if not settles(entries, len(heads)):
        older = store.newest_of_each(wanted, LOOKED_AT, 1)
        heads, entries = (*heads, *older), (*entries, *_entries(store, asked, older))
    classes = sorted({class_of(item.facts) for item in heads})
    if (asked.machine_class and asked.machine_class not in classes) or not heads:
        there = f"use a class of: {'; '.join(classes[:10])}" if classes else "use an earlier --since"
        raise UsageError(f"no session of '{title}' matches", there)
    return answer(title, entries)


def _entries(store: Store, asked: FleetQuestion, heads: Sequence[Session]) -> tuple[Entry, ...]:
    chosen = [item for item in heads if asked.machine_class in ("", class_of(item.facts))]
    arms = dict.fromkeys(arm for item in chosen for arm, _ in item.baselines)
    return store.entries(chosen, tuple(arms), asked.phase, asked.metric)


def _answer_one(store: Store, asked: FleetQuestion) -> FleetAnswer:
    """Return the answer for one session that machines have shared."""
    if not asked.scenario:
        raise UsageError("no finished session yet", "list sessions with kit sessions, or run kit compare")
    session = _named(store, asked.scenario)
    if not makers(session.facts):
        raise UsageError(f"session {session.id} ran on one machine", f"use kit fleet show {session.title}")
    if asked.machine_class or asked.since:
        raise UsageError(f"{session.id} is one session: --class and --since pick among several",
                         "name a scenario instead, or leave them out")  # fmt: skip
    return answer_split(session, asked.metric, asked.phase)


def _named(store: Store, name: str) -> Session:
    """Return the session with this unique beginning of its id. Raises UsageError."""
    if not store.names(name, 1):
        raise UsageError(f"no finished session of '{name}'", "list sessions with kit sessions, or run kit compare")
    return store.get(name)
