"""Gives shares to machines, and gives them again if a machine is lost, until nothing is left of the request."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from kit.core.codec import UnreadableError
from kit.core.errors import KitError, MachineError, RunError
from kit.extra.fleet.address import Address
from kit.extra.fleet.client.client import Ended, Fleet, Said, SchedulerLostError, SilentError, fleet_at
from kit.extra.fleet.settings import SILENCE
from kit.extra.fleet.share import Share
from kit.model.event import Event
from kit.model.machine import Member
from kit.session.wire.messages import Failed, Last

#: Seconds between two checks of the machines. After a machine becomes idle, this multiple of the last check's duration.
#: Otherwise each of a thousand machines that end one after the other would cost one check.
_LOOK = 2.0
_LOOK_AGAIN = 20
#: Seconds of a worker's silence before it is reported.
_SILENT = 30.0
#: A machine whose worker dies this often in its shares gets no more shares.
_DEATHS = 3
#: Number of lost machines that are named at the end, the last ones.
_NAMED = 5


class DispatchPolicy(Protocol):
    """The remaining work of one or several sessions."""

    @property
    def done(self) -> bool:
        """Return whether nothing is left."""

    @property
    def waits(self) -> bool:
        """Receive the first machines, which get nothing yet: more are about to come."""

    def assign(self, idle: Sequence[Member]) -> Sequence[tuple[Member, Share]]:
        """Return the shares that these machines, which have none, get now."""

    def on_event(self, member: Member, event: Event) -> None:
        """Receive a message of the machine on its share. Raises UnreadableError if it is not permitted."""

    def end(self, member: Member, last: Last | None) -> None:
        """Receive the end of a share; None: it was lost, as is reported already. Raises UnreadableError if it may not
        end so."""


@dataclass
class Dispatch:
    """``patience``: seconds to wait for a lost scheduler, or for the last lost machine. ``again``: the command that
    runs what is left, '' without one."""

    address: Address
    policy: DispatchPolicy
    tell: Callable[[str], None]
    patience: float
    again: str = ""
    _given: dict[str, tuple[str, Member]] = field(default_factory=dict)
    #: Of this client alone: a scheduler merges tasks with the same key, even those of an earlier client.
    _token: str = field(default_factory=lambda: secrets.token_hex(4))
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _look_at: float = 0.0
    _look_took: float = 0.0
    _stuck: float | None = None
    _lost: list[str] = field(default_factory=list)  # machine, time and reason
    _away: dict[str, str] = field(default_factory=dict)  # lost and not back: how their worker had died before
    _deaths: Counter[str] = field(default_factory=Counter)
    _silent: set[str] = field(default_factory=set)  # addresses
    _unheard: float | None = None  # start of the scheduler's silence

    def run(self) -> None:
        """Run until nothing is left. Raises KitError if it can't continue, and the errors of the course."""
        lost: float | None = None
        while not self.policy.done:
            try:
                with fleet_at(self.address) as fleet:
                    if lost is not None:
                        self.tell("the scheduler is back")
                    lost = None
                    self._work(fleet)
            except SchedulerLostError as error:
                lost = self._without_scheduler(lost, error)
            except MachineError as error:  # also for a scheduler that exists but accepts nobody
                if lost is None:
                    raise
                lost = self._without_scheduler(lost, error)

    def _without_scheduler(self, since: float | None, error: KitError) -> float:
        if since is None:
            since = time.monotonic()
            self.tell(f"{error.message}: waits {self.patience:.0f} s for one at {self.address.url}")
        for _, member in self._given.values():
            self.policy.end(member, None)
        self._given.clear()
        self._unheard = None
        if time.monotonic() - since > self.patience:
            raise RunError(error.message, self._fix())
        time.sleep(1)
        return since

    def _work(self, fleet: Fleet) -> None:
        self._look_at = 0.0
        while not self.policy.done:
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
                    try:
                        self.policy.on_event(member, event.event)
                    except UnreadableError as error:
                        fleet.take_back(event.key)
                        del self._given[event.key]
                        self.policy.end(member, Failed.by(error))
                case Ended():
                    if event.last is None:
                        self._lose(fleet, event.key)
                    else:
                        del self._given[event.key]
                        self._conclude(member, event.last)
                    self._look_at = min(self._look_at, time.monotonic() + _LOOK_AGAIN * self._look_took)

    def _conclude(self, member: Member, last: Last) -> None:
        try:
            self.policy.end(member, last)
        except UnreadableError as error:
            self.policy.end(member, Failed.by(error))

    def _look(self, fleet: Fleet) -> None:
        """Update the available machines: lost ones lose their shares, others get some. Raises SchedulerLostError, and
        the errors of the course."""
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
            text = f"silent for {silent:.0f} s; lost after {SILENCE} s" if silent > _SILENT else "answers again"
            self._note_silence(address, silent > _SILENT, f"{member.name}: {text}")
        busy = {address for address, _ in self._given.values()}
        idle = {address: member for address, member in members.items() if address not in busy}
        shares = {}
        able = [member for member in idle.values() if self._deaths[member.name] < _DEATHS]
        addresses = {id(member): address for address, member in idle.items()}
        for member, share in self.policy.assign(able):
            key = f"{share.name} {self._token}-{next(self._numbers)}"
            self._given[key] = addresses[id(member)], member
            shares[key] = share
        for key, share in shares.items():
            fleet.give(key, share, self._given[key][0])
        self._check_stuck()

    def _welcome(self, members: Iterable[Member]) -> None:
        """Report the machines that were lost and are back: by now they know whether their worker died."""
        for member in members:
            if member.name in self._away:
                before = self._away.pop(member.name)
                died = member.died if member.died != before else ""
                self._deaths[member.name] += bool(died)
                more = ", and takes no further part" if self._deaths[member.name] >= _DEATHS else ""
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
        """Report a worker's silence once at its beginning, and once at its end."""
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
        self.policy.end(member, None)

    def _check_stuck(self) -> None:
        if self._given or self.policy.done or self.policy.waits:
            self._stuck = None
            return
        if self._stuck is None:
            self._stuck = time.monotonic()
            self.tell(f"no machine is left: waits {self.patience:.0f} s for one")
        if time.monotonic() - self._stuck > self.patience:
            lost = f"; lost: {', '.join(self._lost[-_NAMED:])}" if self._lost else ""
            raise RunError(f"no machine is left{lost}", self._fix())

    def _fix(self) -> str:
        advice = "what was measured is kept; see the workers' logs"
        return f"continue with {self.again}; {advice}" if self.again else advice
