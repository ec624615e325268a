"""Sinks for a session's events."""

from kit.model.event import Change, Event, EventSink
from kit.store import Store


class Recorded(EventSink):
    """Keeps what it takes."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def take(self, *events: Event) -> None:
        self.events += events


class Stored(EventSink):
    """Writes the events of a session to a store that has it."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store, self._session_id = store, session_id

    def take(self, event: Event) -> None:
        if isinstance(event, Change):
            self._store.take(self._session_id, [event])
