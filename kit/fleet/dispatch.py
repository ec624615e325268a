"""Shares given to machines, and given again where one is lost, until nothing is left of what was asked for."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from kit.core.errors import KitError, MachineError, RunError
from kit.fleet.address import Address
from kit.fleet.client import Ended, Fleet, Said, SchedulerLostError, SilentError, fleet_at
from kit.fleet.settings import SILENCE
from kit.fleet.share import Share
from kit.model.member import Member
from kit.session.guest_protocol import Last, Message

#: Seconds between two looks at which machines there are; where one has just become idle, so many times what the last
#: look took: of a thousand machines that end one after the other each would else cost one.
_LOOK = 2.0
_LOOK_AGAIN = 20
#: Seconds without a word of a machine's worker after which that is told.
_SILENT = 30.0
#: A machine whose worker dies so often in what it is given is given no more.
_DEATHS = 3
#: Of machines that were lost so many are named at the end, the last ones.
_NAMED = 5


class Course(Protocol):
    """What is left of one or several sessions."""

    @property
    def done(self) -> bool:
        """Nothing is left."""

    @property
    def waits(self) -> bool:
        """There are machines, which are given nothing yet: more are about to come."""

    def deal(self, idle: Sequence[Member]) -> Sequence[tuple[Member, Share]]:
        """What these machines, which have nothing of it, are given now."""

    def hear(self, member: Member, message: Message) -> None:
        """What the machine says of its share."""

    def end(self, member: Member, last: Last | None) -> None:
        """Its share is over; None: it was lost, as is told already."""


@dataclass
class Dispatch:
    """``patience``: seconds that a lost scheduler, or the last lost machine, is waited for."""

    address: Address
    course: Course
    tell: Callable[[str], None]
    patience: float
    _given: dict[str, tuple[str, Member]] = field(default_factory=dict)
    #: Of this client alone: a scheduler joins one key's tasks, also to what an earlier client has given up.
    _token: str = field(default_factory=lambda: secrets.token_hex(4))
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _look_at: float = 0.0
    _look_took: float = 0.0
    _stuck: float | None = None
    _lost: list[str] = field(default_factory=list)  # of what machine, when, and why
    _away: dict[str, str] = field(default_factory=dict)  # lost ones that are not back: how their worker had died before
    _deaths: Counter[str] = field(default_factory=Counter)
    _silent: set[str] = field(default_factory=set)  # addresses
    _unheard: float | None = None  # since when the scheduler is silent

    def run(self) -> None:
        """Raises KitError where it can't go on, and what the course raises."""
        lost: float | None = None
        while not self.course.done:
            try:
                with fleet_at(self.address) as fleet:
                    if lost is not None:
                        self.tell("the scheduler is back")
                    lost = None
                    self._work(fleet)
            except SchedulerLostError as error:
                lost = self._without_scheduler(lost, error)
            except MachineError as error:  # also of what is half there and lets nobody in
                if lost is None:
                    raise
                lost = self._without_scheduler(lost, error)

    def _without_scheduler(self, since: float | None, error: KitError) -> float:
        if since is None:
            since = time.monotonic()
            self.tell(f"{error.message}: waits {self.patience:.0f} s for one at {self.address.url}")
        for _, member in self._given.values():
            self.course.end(member, None)
        self._given.clear()
        self._unheard = None
        if time.monotonic() - since > self.patience:
            raise RunError(error.message, "what was measured is kept: kit compare --resume SESSION --fleet SCHEDULER")
        time.sleep(1)
        return since

    def _work(self, fleet: Fleet) -> None:
        self._look_at = 0.0
        while not self.course.done:
            if time.monotonic() >= self._look_at:
                began = time.monotonic()
                self._look(fleet)
                self._look_took = time.monotonic() - began
                self._look_at = began + self._look_took + _LOOK
            event = fleet.next(min(0.5, max(0.0, self._look_at - time.monotonic())))
            if event is None or event.key not in self._given:
                continue
            _, member = self._given[event.key]
            match event:
                case Said():
                    self.course.hear(member, event.message)
                case Ended():
                    if event.last is None:
                        self._lose(fleet, event.key)
                    else:
                        del self._given[event.key]
                        self.course.end(member, event.last)
                    self._look_at = min(self._look_at, time.monotonic() + _LOOK_AGAIN * self._look_took)

    def _look(self, fleet: Fleet) -> None:
        """Which machines are there now: those that are gone lose their shares, others are given some. Raises
        SchedulerLostError, and what the course raises."""
        try:
            members = fleet.members()
        except SilentError as error:
            self._bear(error)
            return
        if self._unheard is not None:
            self._unheard = None
            self.tell("the scheduler answers again")
        self._welcome(members.values())
        for key, (address, member) in list(self._given.items()):
            if address not in members:
                fleet.take_back(key)
                self._lose(fleet, key)
                continue
            silent = fleet.silence(address)
            text = f"silent for {silent:.0f} s; lost after {SILENCE} s" if silent > _SILENT else "is heard again"
            self._note_silence(address, silent > _SILENT, f"{member.name}: {text}")
        taken = {address for address, _ in self._given.values()}
        idle = {address: member for address, member in members.items() if address not in taken}
        shares = {}
        able = [member for member in idle.values() if self._deaths[member.name] < _DEATHS]
        addresses = {id(member): address for address, member in idle.items()}
        for member, share in self.course.deal(able):
            key = f"{share.name} {self._token}-{next(self._numbers)}"
            self._given[key] = addresses[id(member)], member
            shares[key] = share
        for key, share in shares.items():
            fleet.give(key, share, self._given[key][0])
        self._check_stuck()

    def _welcome(self, members: Iterable[Member]) -> None:
        """Those that were lost and are back: by now they know whether their worker died."""
        for member in members:
            if member.name in self._away:
                before = self._away.pop(member.name)
                died = member.died if member.died != before else ""
                self._deaths[member.name] += bool(died)
                more = ", and takes no more part" if self._deaths[member.name] >= _DEATHS else ""
                self.tell(f"{member.name}: is back" + (f"; its worker was {died}{more}" if died else ""))
                if died:
                    self._lost.append(f"{member.name}'s worker was {died}")

    def _bear(self, error: SilentError) -> None:
        if self._unheard is None:
            self._unheard = time.monotonic()
            self.tell(f"{error.message}; what runs goes on, and it counts as lost after {SILENCE} s")
        if time.monotonic() - self._unheard > SILENCE:
            self._unheard = None
            raise SchedulerLostError(error.message)

    def _note_silence(self, address: str, silent: bool, text: str) -> None:
        """Told when it begins, and when it ends."""
        if silent != (address in self._silent):
            self._silent ^= {address}
            self.tell(text)

    def _lose(self, fleet: Fleet, key: str) -> None:
        address, member = self._given[key]
        try:
            why = fleet.why_lost(address)
        except SilentError as error:
            why = error.message
        del self._given[key]
        self._away[member.name] = member.died
        self._lost.append(f"{member.name} at {time.strftime('%H:%M:%S')} ({why})")
        self.tell(f"{member.name}: was lost: {why}")
        self.course.end(member, None)

    def _check_stuck(self) -> None:
        if self._given or self.course.done or self.course.waits:
            self._stuck = None
            return
        if self._stuck is None:
            self._stuck = time.monotonic()
            self.tell(f"no machine is left: waits {self.patience:.0f} s for one")
        if time.monotonic() - self._stuck > self.patience:
            lost = f"; lost: {', '.join(self._lost[-_NAMED:])}" if self._lost else ""
            raise RunError(
                f"no machine is left{lost}",
                "what was measured is kept: kit compare --resume SESSION --fleet SCHEDULER; a worker's log says more",
            )
