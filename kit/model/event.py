"""Events of a session, a dataclass for each. The measuring process emits them; store, progress and other machines
receive them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kit.core.codec import Count
from kit.model.plan import PlanStep
from kit.model.sample import Sample
from kit.model.session import NotRun, Session


@dataclass(frozen=True)
class SessionStarted:
    """A session begins or goes on, with the samples that it has."""

    session: Session


@dataclass(frozen=True)
class Told:
    """A sentence for the user."""

    text: str


@dataclass(frozen=True)
class RunsPlanned:
    """The session has planned its runs."""

    runs: Count  # how many are certain to come
    done: Count  # how many an earlier start made


@dataclass(frozen=True)
class RunsAdded:
    """More runs are needed than planned. ``runs``: how many."""

    runs: Count
    reason: str


@dataclass(frozen=True)
class PhaseStarted:
    """A run has reached this phase."""

    step: PlanStep
    phase: str


@dataclass(frozen=True)
class SampleTaken:
    """A run is over. ``earlier``: an earlier start of the session made it."""

    sample: Sample
    earlier: bool = False


@dataclass(frozen=True)
class RunFlagged:
    """Other programs disturbed a measured run."""

    arm: str
    point: str
    round: Count
    flags: str

    def hits(self, sample: Sample) -> bool:
        run = (sample.arm, sample.point, sample.round, sample.kind)
        return run == (self.arm, self.point, self.round, "measured")


@dataclass(frozen=True)
class FactsKnown:
    """All current facts of the session, and all arms that do not run."""

    facts: Mapping[str, str]
    not_run: tuple[NotRun, ...]

    @classmethod
    def of(cls, session: Session) -> FactsKnown:
        return cls(session.facts, session.not_run)


@dataclass(frozen=True)
class StatusChanged:
    status: str


#: Events that a store keeps.
Change = SessionStarted | SampleTaken | RunFlagged | FactsKnown | StatusChanged
Event = Change | Told | RunsPlanned | RunsAdded | PhaseStarted


class EventSink(Protocol):
    """Receives events of a session. Each sink ignores other events."""

    def take(self, event: Event) -> None: ...

    def tell(self, text: str) -> None:
        self.take(Told(text))


class Relay(EventSink):
    """Gives each event to several sinks. The first has stored a sample before the next shows it."""

    def __init__(self, *sinks: EventSink) -> None:
        self._sinks = sinks

    def take(self, event: Event) -> None:
        for sink in self._sinks:
            sink.take(event)
