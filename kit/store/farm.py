"""What stored sessions of many machines say of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.farm_answer import FarmAnswer, answer, settles
from kit.analysis.history import Entry
from kit.analysis.split_session import answer_split
from kit.core.errors import UsageError
from kit.model.fact import makers
from kit.model.machine_class import class_of
from kit.model.session import DONE, Session
from kit.store.heads import LOOKED_AT, Wanted
from kit.store.store import Store


@dataclass(frozen=True)
class FarmQuestion:
    """``scenario``: a title, '' for that of the newest session, or one session that machines have shared. ``since``:
    Unix time. ``phase``: '' for the whole run."""

    scenario: str = ""
    machine_class: str = ""
    since: float | None = None
    phase: str = ""
    metric: str = "real"


def answer_farm(store: Store, asked: FarmQuestion) -> FarmAnswer:
    """Raises UsageError where no session fits."""
    newest = store.list(Wanted(asked.scenario, status=DONE), 1)
    if not newest:
        return _answer_one(store, asked)
    title = newest[0].title
    wanted = Wanted(title, status=DONE, since=asked.since)
    heads = store.newest_of_each(wanted, 1)
    entries = _entries(store, asked, heads)
    if not settles(entries, len(heads)):
        older = store.newest_of_each(wanted, LOOKED_AT, 1)
        heads, entries = (*heads, *older), (*entries, *_entries(store, asked, older))
    classes = sorted({class_of(item.facts) for item in heads})
    if (asked.machine_class and asked.machine_class not in classes) or not heads:
        there = f"there are machines of: {'; '.join(classes[:10])}" if classes else "the newest is of an earlier day"
        raise UsageError(f"no session of '{title}' fits", there)
    return answer(title, entries)


def _entries(store: Store, asked: FarmQuestion, heads: Sequence[Session]) -> tuple[Entry, ...]:
    chosen = [item for item in heads if asked.machine_class in ("", class_of(item.facts))]
    arms = dict.fromkeys(arm for item in chosen for arm, _ in item.baselines)
    return store.entries(chosen, tuple(arms), asked.phase, asked.metric)


def _answer_one(store: Store, asked: FarmQuestion) -> FarmAnswer:
    """Of a session that machines have shared."""
    if not asked.scenario:
        raise UsageError("no finished session yet", "kit sessions lists what there is; kit compare makes one")
    session = _named(store, asked.scenario)
    if not makers(session.facts):
        raise UsageError(f"session {session.id} is one machine's", f"of all machines: kit fleet show {session.title}")
    if asked.machine_class or asked.since:
        raise UsageError(f"{session.id} is one session: --class and --since pick among several",
                         "name a scenario instead, or leave them out")  # fmt: skip
    return answer_split(session, asked.metric, asked.phase)


def _named(store: Store, name: str) -> Session:
    """By a unique beginning of its id; raises UsageError."""
    if not store.names(name, 1):
        raise UsageError(f"no finished session of '{name}'", "kit sessions lists them; kit compare makes one")
    return store.get(name)
