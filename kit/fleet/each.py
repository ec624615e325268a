"""A session of its own on each machine. One that is lost is waited for: nobody else can go on with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from kit.fleet.share import Share
from kit.fleet.watcher import Watcher
from kit.model.member import Member
from kit.model.sample import Sample
from kit.model.session import FAILED, INTERRUPTED, RUNNING, Session
from kit.session.context import Keeper
from kit.session.guest_protocol import (
    Done,
    Extended,
    Failed,
    Finished,
    Flagged,
    Last,
    Measured,
    Message,
    Planned,
    Running,
    Tell,
    Updated,
)

_Key = tuple[str, int, str, str, float]


class EachKeeper(Keeper, Protocol):
    """Keeps what becomes of a session, too."""

    def set_status(self, session_id: str, status: str) -> None: ...


class EachCourse:
    """``sessions`` by the machine's name, with what of them is measured already."""

    def __init__(self, sessions: Mapping[str, Session], keepers: Mapping[str, EachKeeper], observer: Watcher) -> None:
        self._sessions = {name: replace(session, samples=()) for name, session in sessions.items()}
        self._samples = {name: {_key(item): item for item in one.samples} for name, one in sessions.items()}
        self._keepers = keepers
        self._observer = observer
        self._open = {name for name, session in sessions.items() if session.status == RUNNING}
        self._given: set[str] = set()
        self._last: dict[str, Sample] = {}
        self._left: dict[str, int] = {}  # runs, of each that has begun
        self._awaited: set[str] = set()  # those that are given their session again and have not begun

    @property
    def done(self) -> bool:
        return not self._open

    @property
    def waits(self) -> bool:
        return False

    def deal(self, idle: Sequence[Member]) -> Sequence[tuple[Member, Share]]:
        found = []
        for member in idle:
            if member.name in self._open and member.name not in self._given:
                self._given.add(member.name)
                if member.name in self._left:
                    self._awaited.add(member.name)
                found.append((member, Share(self._sessions[member.name])))
        return found

    def hear(self, member: Member, message: Message) -> None:
        name, keeper = member.name, self._keepers[member.name]
        session = self._sessions[name]
        self._observer.machine(name)
        match message:
            case Tell():
                self._observer.tell(message.text)
            case Planned():
                self._left[name] = message.steps
                self._begin_anew(name)
            case Extended():
                self._left[name] = message.steps
                self._observer.extended(sum(self._left.values()), message.reason)
            case Running():
                self._observer.running(message.step, message.phase)
            case Measured():
                self._last[name] = sample = replace(message.sample, log=f"{name}:{message.sample.log}")
                if _key(sample) not in self._samples[name]:
                    self._samples[name][_key(sample)] = sample
                    keeper.add_sample(session.id, sample)
            case Finished():
                self._left[name] = max(0, self._left.get(name, 0) - 1)
                self._observer.finished(message.step, self._last[name])
            case Updated():
                self._update(name, message.session)
            case Flagged():
                self._flag(name, message)
            case _:
                pass
        self._observer.machine("")

    def _begin_anew(self, name: str) -> None:
        """What is left is counted anew when the last of them begins: nobody has heard what they did meanwhile."""
        if name in self._awaited:
            self._awaited.discard(name)
            if not self._awaited and self._left.keys() == self._sessions.keys():
                self._observer.machine("")
                done = sum(item.kind == "measured" for mine in self._samples.values() for item in mine.values())
                self._observer.planned(sum(self._left.values()), done)

    def end(self, member: Member, last: Last | None) -> None:
        self._given.discard(member.name)
        self._awaited.discard(member.name)
        match last:
            case Done():
                self._update(member.name, last.session)
                self._close(member.name, last.session.status)
            case Failed():
                self._observer.tell(f"{member.name}: gave up: {last.message}")
                self._close(member.name, FAILED)
            case None:
                self._observer.tell(f"{member.name}: what it has measured is kept; it is waited for")

    def give_up(self) -> None:
        """Those that are lost are not waited for any longer."""
        for name in list(self._open):
            self._close(name, INTERRUPTED)

    def _close(self, name: str, status: str) -> None:
        """At once in the store: what is done counts, whatever becomes of the others."""
        self._open.discard(name)
        self._sessions[name] = replace(self._sessions[name], status=status)
        self._keepers[name].set_status(self._sessions[name].id, status)

    def _update(self, name: str, told: Session) -> None:
        self._sessions[name] = replace(self._sessions[name], facts=told.facts, not_run=told.not_run)
        self._keepers[name].update(self._sessions[name])

    def _flag(self, name: str, flag: Flagged) -> None:
        self._keepers[name].set_flags(self._sessions[name].id, flag.arm, flag.point, flag.block, flag.flags)
        for key, item in self._samples[name].items():
            if (item.arm, item.point, item.block, item.kind) == (flag.arm, flag.point, flag.block, "measured"):
                self._samples[name][key] = replace(item, flags=flag.flags)

    def results(self) -> dict[str, Session]:
        """Each in the state that it is in now."""
        return {
            name: replace(session, samples=tuple(self._samples[name].values()))
            for name, session in self._sessions.items()
        }


def _key(sample: Sample) -> _Key:
    return sample.kind, sample.block, sample.arm, sample.point, sample.started
