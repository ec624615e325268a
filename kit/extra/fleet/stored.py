"""The answer for a fleet from stored sessions of many machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.session.entry import Entry
from kit.core.errors import UsageError
from kit.extra.fleet.analysis.answer import FleetAnswer, answer, settles
from kit.extra.fleet.analysis.split_session import answer_split
from kit.model.fact import makers
from kit.model.machine import class_of
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


def answer_fleet(store: Store, question: FleetQuestion) -> FleetAnswer:
    """Return the answer. Raises UsageError if no session matches."""
    newest = store.list(SessionFilter(question.scenario, status=DONE), 1)
    if not newest:
        return _answer_one(store, question)
    title = newest[0].title
    selection = SessionFilter(title, status=DONE, since=question.since)
    heads = store.newest_of_each(selection, 1)
    entries = _entries(store, question, heads)
    if not settles(entries, len(heads)):
        older = store.newest_of_each(selection, LOOKED_AT, 1)
        heads, entries = (*heads, *older), (*entries, *_entries(store, question, older))
    classes = sorted({class_of(head.facts) for head in heads})
    if (question.machine_class and question.machine_class not in classes) or not heads:
        there = f"use a class of: {'; '.join(classes[:10])}" if classes else "use an earlier --since"
        raise UsageError(f"no session of '{title}' matches", there)
    return answer(title, entries)


def _entries(store: Store, question: FleetQuestion, heads: Sequence[Session]) -> tuple[Entry, ...]:
    chosen = [head for head in heads if question.machine_class in ("", class_of(head.facts))]
    arms = dict.fromkeys(arm for head in chosen for arm, _ in head.baselines)
    return store.entries(chosen, tuple(arms), question.phase, question.metric)


def _answer_one(store: Store, question: FleetQuestion) -> FleetAnswer:
    """Return the answer for one session that machines have shared."""
    if not question.scenario:
        raise UsageError("no finished session yet", "list sessions with kit sessions, or run kit compare")
    session = _named(store, question.scenario)
    if not makers(session.facts):
        raise UsageError(f"session {session.id} ran on one machine", f"use kit fleet show {session.title}")
    if question.machine_class or question.since:
        raise UsageError(f"{session.id} is one session: --class and --since pick among several",
                         "name a scenario instead, or leave them out")  # fmt: skip
    return answer_split(session, question.metric, question.phase)


def _named(store: Store, name: str) -> Session:
    """Return the session with this unique beginning of its id. Raises UsageError."""
    if not store.names(name, 1):
        raise UsageError(f"no finished session of '{name}'", "list sessions with kit sessions, or run kit compare")
    return store.get(name)
