"""Runs a session of its own on each machine. A lost machine is awaited: no other can continue its session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from kit.extra.fleet.client.observer import FleetObserver, MachineEvents
from kit.extra.fleet.share import Share
from kit.model.event import Event, EventSink, Relay, RunsAdded, RunsPlanned, SampleTaken, StatusChanged
from kit.model.machine import Member
from kit.model.session import DONE, FAILED, INTERRUPTED, RUNNING, Session
from kit.session.wire.claims import Bounds
from kit.session.wire.messages import Done, Failed, Last
from kit.session.wire.remote_session import RemoteSession


class EachCourse:
    """``sessions`` by the machine's name, with the samples so far; ``stores``: the store of each."""

    def __init__(
        self, sessions: Mapping[str, Session], stores: Mapping[str, EventSink], observer: FleetObserver
    ) -> None:
        self._shares = {name: Share(replace(session, samples=())) for name, session in sessions.items()}
        self._remotes = {
            name: RemoteSession(
                session,
                Bounds(name, session.arms, session.kept_plan().points),
                Relay(stores[name], MachineEvents(observer, name)),
                partial("{}:{}".format, name),
            )
            for name, session in sessions.items()
        }
        self._stores = stores
        self._observer = observer
        self._open = {name for name, session in sessions.items() if session.status == RUNNING}
        self._given: set[str] = set()
        self._left: dict[str, int] = {}  # runs, of each that has begun
        self._awaited: set[str] = set()  # those that are given their session again and have not begun

    @property
    def done(self) -> bool:
        return not self._open

    @property
    def waits(self) -> bool:
        return False

    def assign(self, idle: Sequence[Member]) -> Sequence[tuple[Member, Share]]:
        assigned = []
        for member in idle:
            if member.name in self._open and member.name not in self._given:
                self._given.add(member.name)
                if member.name in self._left:
                    self._awaited.add(member.name)
                assigned.append((member, self._shares[member.name]))
        return assigned

    def on_event(self, member: Member, event: Event) -> None:
        """Raises UnreadableError if the machine sends an invalid message."""
        name = member.name
        match event:
            case RunsPlanned():
                self._left[name] = event.runs
                self._begin_anew(name)
                return
            case RunsAdded():
                self._left[name] = event.runs
                event = replace(event, runs=sum(self._left.values()))
            case SampleTaken(earlier=False):
                self._left[name] = max(0, self._left.get(name, 0) - 1)
        self._remotes[name].take(event)

    def _begin_anew(self, name: str) -> None:
        """Count the rest again when the last of them begins: what they did meanwhile is unknown."""
        if name in self._awaited:
            self._awaited.discard(name)
            if not self._awaited and self._left.keys() == self._remotes.keys():
                runs_done = sum(
                    sample.kind == "measured" for session in self.results().values() for sample in session.samples
                )
                self._observer.take(RunsPlanned(sum(self._left.values()), runs_done))

    def end(self, member: Member, last: Last | None) -> None:
        self._given.discard(member.name)
        self._awaited.discard(member.name)
        match last:
            case Done():
                self._remotes[member.name].end(last, (DONE, FAILED, INTERRUPTED))
                self._close(member.name, last.status)
            case Failed():
                self._observer.tell(f"{member.name}: gave up: {last.message}")
                self._close(member.name, FAILED)
            case None:
                self._observer.tell(f"{member.name}: what it has measured is kept; it is waited for")

    def give_up(self) -> None:
        """Stop waiting for the lost machines."""
        for name in list(self._open):
            self._close(name, INTERRUPTED)

    def _close(self, name: str, status: str) -> None:
        """Close a machine's session and store its status immediately, whatever happens to the others."""
        self._open.discard(name)
        self._remotes[name].close(status)
        self._stores[name].take(StatusChanged(status))

    def results(self) -> dict[str, Session]:
        """Return each session in its current state."""
        return {name: remote.session for name, remote in self._remotes.items()}
