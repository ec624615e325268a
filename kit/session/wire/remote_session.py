"""A session that runs in a guest, or on a machine of a fleet, as seen by the machine with its store."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from kit.model.event import Event, EventSink, FactsKnown, RunFlagged, SampleTaken
from kit.model.sample import Sample
from kit.model.session import Session
from kit.session.wire.claims import Bounds
from kit.session.wire.messages import Done


class RemoteSession(EventSink):
    """Checks the other machine's messages, and passes them on to ``events``.

    ``log`` returns the kept path of a run's log for the path that the machine names. ``known`` does the same for
    facts."""

    def __init__(
        self,
        session: Session,
        bounds: Bounds,
        events: EventSink,
        log: Callable[[str], str],
        known: Callable[[FactsKnown], FactsKnown] = lambda said: said,
    ) -> None:
        self._head = replace(session, samples=())
        self._samples = {_key(sample): sample for sample in session.samples}
        self._bounds, self._events = bounds, events
        self._known, self._log = known, log

    @property
    def session(self) -> Session:
        """Return the session in its current state."""
        return replace(self._head, samples=tuple(self._samples.values()))

    def take(self, event: Event) -> None:
        """Handle one message. Raises UnreadableError if the machine may not send it."""
        event = self._bounds.checked(event)
        match event:
            case SampleTaken():
                event = replace(event, sample=replace(event.sample, log=self._log(event.sample.log)))
                if _key(event.sample) in self._samples:
                    return
                self._bounds.check_count(len(self._samples))
                self._samples[_key(event.sample)] = event.sample
            case RunFlagged():
                for key, sample in self._samples.items():
                    if event.hits(sample):
                        self._samples[key] = replace(sample, flags=event.flags)
            case FactsKnown():
                event = self._known(event)
                self._head = replace(self._head, facts=event.facts, not_run=event.not_run)
        self._events.take(event)

    def end(self, done: Done, ends: Collection[str]) -> Session:
        """Return the session in the final state that the machine reports. Raises UnreadableError if ``ends`` lacks that
        state."""
        if done.status not in ends:
            raise self._bounds.refused(f"the session ended as {done.status[:60]!r}")
        self.take(done.known)
        return self.close(done.status)

    def close(self, status: str) -> Session:
        self._head = replace(self._head, status=status)
        return self.session


def _key(sample: Sample) -> tuple[str, int, str, str, float]:
    return sample.kind, sample.round, sample.arm, sample.point, sample.started
