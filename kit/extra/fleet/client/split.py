"""One session whose rounds several similar machines share. One machine makes a whole round, or the round does not
count: comparisons are made within a machine.

The first machine decides by a pilot run whether arms are interleaved. The others begin after that, and do the same."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import Protocol

from kit.core.errors import KitError, RunError
from kit.core.listing import counted, listed
from kit.extra.fleet.client.merge import check_digests, machine_facts, member_facts, merged_facts, rounds_facts
from kit.extra.fleet.client.observer import FleetObserver, MachineEvents
from kit.extra.fleet.share import Share, local_session
from kit.model.event import Event, FactsKnown, PhaseStarted, RunFlagged, RunsPlanned, SampleTaken, Told
from kit.model.fact import FLEET, ROUNDS_OF, SEVERAL, WORKER, makers
from kit.model.machine import Member, one_worker_each
from kit.model.plan import Plan
from kit.model.sample import Sample
from kit.model.session import DONE, FAILED, Session
from kit.session.plan.interleave_policy import ordered_as, undecided
from kit.session.plan.schedule import whole_rounds
from kit.session.wire.claims import Bounds
from kit.session.wire.messages import Done, Failed, Last

#: Seconds between two writes of the machines' facts: each contains the reports of all machines.
_FACTS = 5.0
#: Seconds to wait for the other lost machines when one is back. After a failure of a network or scheduler they return
#: one after the other, and the first would otherwise get the rounds of all.
_RETURN = 30.0
#: Up to this number of machines each gets its own line.
_APART = 8
#: Number of items that are named of more.
_NAMED = 3


class RoundStore(Protocol):
    def take(self, *events: Event) -> None:
        """Store all of the runs, or none: a round is complete or missing."""


class SplitCourse:
    """``members``: the chosen machines; others of their class replace lost ones. Stops with the error of a machine if
    no other is left.

    The store knows which rounds a machine was given before it has any of its runs. After a crash, this shows whose
    rounds they are, and the runs show which rounds are complete."""

    def __init__(
        self, session: Session, plan: Plan, members: Sequence[Member], store: RoundStore, observer: FleetObserver
    ) -> None:
        self._head = replace(session, samples=())
        self._plan = plan
        self._arms = {*session.arms, *map(str, plan.arms)}
        self._store, self._observer = store, observer
        self._chosen = {member.name: member for member in members}
        self._most = len(members)
        self._samples = {_key(sample): sample for sample in session.samples}
        whole = whole_rounds(session, plan)
        self._made: dict[str, set[int]] = {}
        self._had = makers(session.facts)  # machine that was last given a round
        for number, name in self._had.items():
            if number in whole:
                self._made.setdefault(name, set()).add(number)
        complete = {number for numbers in self._made.values() for number in numbers}
        self._pending = [number for number in range(1, plan.rounds + 1) if number not in complete]
        self._given: dict[str, list[int]] = {}
        self._held: dict[str, dict[int, dict[_Key, Sample]]] = {}  # runs of incomplete rounds
        self._able: dict[str, frozenset[str]] = {}
        self._told: dict[str, dict[str, str]] = {}
        self._barred: dict[str, KitError] = {}
        self._first: dict[tuple[str, str], tuple[Sample, str]] = {}
        for sample in session.samples:
            of = makers(session.facts).get(sample.round, "another machine")
            self._first.setdefault((sample.arm, sample.point), (sample, of))
        self._failed = False
        # Machines that begin during the course: they may have made runs that were not reported.
        self._anew: set[str] = set()
        self._awaited: set[str] = set()  # those of them that have not begun a run
        self._dealt = False
        self._lost: set[str] = set()
        self._return_until = 0.0  # on the monotonic clock
        self._facts_due = False
        self._facts_stored = 0.0

    @property
    def session(self) -> Session:
        """Return the session with the runs that count so far."""
        return replace(self._head, samples=tuple(self._samples.values()))

    @property
    def done(self) -> bool:
        return self._failed or not (self._pending or self._given)

    @property
    def left(self) -> int:
        """Return the number of runs if no machine is lost from now on: each that begins warms its caches once."""
        begin = len(self._anew) if self._given else min(self._most, len(self._pending))
        rounds = len(self._pending) + sum(map(len, self._given.values()))
        warm = begin if self._plan.cache == "warm" else 0
        return (rounds + warm) * len(self._plan.arms) * len(self._plan.points)

    @property
    def waits(self) -> bool:
        return bool(self._lost) and time.monotonic() < self._return_until

    def assign(self, idle: Sequence[Member]) -> Sequence[tuple[Member, Share]]:
        back = self._lost.intersection(member.name for member in idle)
        if back:
            self._lost -= back
            self._return_until = time.monotonic() + _RETURN
        if self.waits:
            return []
        able = [member for member in idle if self._may(member)]
        able = one_worker_each(sorted(able, key=lambda member: member.name not in self._chosen))
        takers = able[: max(0, self._most - len(self._given))][: len(self._pending)]
        if not takers and self._pending and not self._given and self._barred:
            raise next(iter(self._barred.values()))
        if not takers:
            return []
        first = undecided(self._head)
        if first and self._given:
            return []
        names = [member.name for member in takers]
        assigned = dict(zip(names, self._dealt_to(names), strict=True))
        assignments = []
        for member in takers[: 1 if first else None]:
            rounds = assigned.pop(member.name)
            self._had |= dict.fromkeys(rounds, member.name)
            self._given[member.name] = rounds
            self._held[member.name] = {}
            self._chosen.setdefault(member.name, member)
            session = local_session(self._head, member.name).with_facts(member_facts([member]))
            assignments.append((member, Share(session, tuple(rounds), self._head.id)))
        self._say_dealt(assignments)
        self._pending = sorted(number for rounds in assigned.values() for number in rounds)
        if assigned:
            self._say(assignments[0][0], "decides whether arms are interleaved; the others wait for that")
        if self._dealt:
            begin = {member.name for member, _ in assignments}
            self._anew, self._awaited = self._anew | begin, self._awaited | begin
        self._dealt = True
        self._store_facts()
        return assignments

    def _dealt_to(self, names: Sequence[str]) -> list[list[int]]:
        """Distribute the pending rounds equally, up to a difference of one. A machine keeps its earlier rounds: it may
        have made them without a report."""
        each, more = divmod(len(self._pending), len(names))
        room = {name: each + (number < more) for number, name in enumerate(names)}
        assigned: dict[str, list[int]] = {name: [] for name in names}
        others = []
        for round_ in self._pending:
            name = self._had.get(round_, "")
            if name in room and len(assigned[name]) < room[name]:
                assigned[name].append(round_)
            else:
                others.append(round_)
        turns = cycle(names)
        for round_ in others:
            name = next(name for name in turns if len(assigned[name]) < room[name])
            assigned[name].append(round_)
        return [sorted(assigned[name]) for name in names]

    def _may(self, member: Member) -> bool:
        alike = next(iter(self._chosen.values()))
        same = (member.kind, member.kit_version, member.probe) == (alike.kind, alike.kit_version, alike.probe)
        busy = {self._chosen[name].machine for name in self._given}
        free = member.together or member.machine not in busy
        return same and free and member.name not in self._barred and member.name not in self._given

    def on_event(self, member: Member, event: Event) -> None:
        """Raises UnreadableError if the machine sends an invalid message."""
        event = self._bounds(member).checked(event)
        machine_events = MachineEvents(self._observer, member.name)
        match event:
            case Told():
                machine_events.take(event)
            case PhaseStarted():
                self._begin_anew(member)
                machine_events.take(event)
            case SampleTaken():
                sample = replace(event.sample, log=f"{member.name}:{event.sample.log}")
                if sample.kind == "measured" and sample.round in self._given.get(member.name, ()):
                    self._held[member.name].setdefault(sample.round, {})[_key(sample)] = sample
                    self._keep_whole(member, [sample.round])
                machine_events.take(replace(event, sample=sample))
            case FactsKnown():
                self._update(member, event)
            case RunFlagged():
                self._flag(member, event)
        if self._facts_due and time.monotonic() - self._facts_stored > _FACTS:
            self._store_facts()

    def _begin_anew(self, member: Member) -> None:
        """Count the rest again when the last of them begins to run."""
        if member.name in self._awaited:
            self._awaited.discard(member.name)
            if not self._awaited:
                self._observer.take(RunsPlanned(self.left, len(self._samples)))
                self._anew.clear()

    def end(self, member: Member, last: Last | None) -> None:
        self._anew.discard(member.name)
        self._awaited.discard(member.name)
        rounds = self._given.get(member.name, [])
        match last:
            case Done():
                self._bounds(member).check_news(last.known)
                self._update(member, last.known)
                self._failed = self._failed or last.status == FAILED
            case Failed():
                self._barred[member.name] = last.error()
                self._say(member, f"gave up: {last.message}")
            case None:
                self._lost.add(member.name)
        self._given.pop(member.name, None)
        self._held.pop(member.name, None)
        if rounds and not self._failed:
            self._say(member, f"{_rounds(rounds)}: assigned to another machine")
            self._pending = sorted([*self._pending, *rounds])
        if self.done:
            self.settle()

    def _update(self, member: Member, event: FactsKnown) -> None:
        """Check new facts, and which arms can't run there: they must be the same on all machines of one session."""
        able = frozenset(self._head.arms) - {blocked.arm for blocked in event.not_run}
        other = next((name for name in self._able if name != member.name), member.name)  # all the others have the same
        if self._able.get(other, able) != able:
            arms = ", ".join(sorted(self._able[other] ^ able))
            raise RunError(
                f"{member.name} and {other} differ: {arms} can't run on one of them",
                "run kit doctor there; or leave out the machine: --where 'name!=…'",
            )
        self._able[member.name] = able
        self._told[member.name] = dict(event.facts)
        if self._head.not_run != event.not_run:
            self._head = replace(self._head, not_run=event.not_run)
            self._facts_stored = 0.0  # it determines which rounds are complete
        if undecided(self._head):
            self._head = ordered_as(self._head, event.facts)
        self._facts_due = True
        self._keep_whole(member, list(self._held.get(member.name, ())))

    def settle(self) -> None:
        """Store the known machines and rounds that are not stored yet, at the end or during a course."""
        if self._facts_due:
            self._store_facts()

    def _store_facts(self) -> None:
        members = [self._chosen[name] for name in sorted(self._told) if name in self._chosen]
        rounds_by_machine = {
            name: [*self._made.get(name, ()), *self._given.get(name, ())] for name in {**self._made, **self._given}
        }
        rounds = list(rounds_facts({name: rounds for name, rounds in rounds_by_machine.items() if rounds}))
        gone = {fact.key for fact in ROUNDS_OF.find(self._head.facts)}
        before = {key: text for key, text in self._head.facts.items() if key not in gone}
        head = replace(self._head, facts={**before, **merged_facts(self._told)})
        if members:
            head = head.with_facts([*member_facts(members), *machine_facts(members, self._head.facts)])
        if names := sorted({*rounds_by_machine, *self._told}, key=counted):
            head = head.with_facts([WORKER.fact(SEVERAL.join(names))])
        self._head = head.with_facts([*rounds, *FLEET.find(self._head.facts)])  # a machine may not name the command
        self._facts_due, self._facts_stored = False, time.monotonic()
        self._store.take(FactsKnown.of(self._head))

    def _keep_whole(self, member: Member, rounds: Sequence[int]) -> None:
        """Keep the machine's runs of its complete rounds."""
        if member.name not in self._able:
            return
        complete = {(arm, point) for arm in self._able[member.name] for point in self._plan.points}
        for round_ in rounds:
            samples = self._held[member.name].get(round_, {})
            if round_ in self._given.get(member.name, ()) and {(arm, point) for arm, point, _ in samples} >= complete:
                self._keep(member, round_, list(samples.values()))
                del self._held[member.name][round_]

    def _keep(self, member: Member, round_: int, samples: Sequence[Sample]) -> None:
        for sample in samples:
            first, of_first = self._first.setdefault((sample.arm, sample.point), (sample, member.name))
            check_digests(first, of_first, sample, member.name)
        self._store.take(*map(SampleTaken, samples))
        self._samples.update({_key(sample): sample for sample in samples})
        self._given[member.name].remove(round_)
        self._made.setdefault(member.name, set()).add(round_)
        self._facts_due = True

    def _flag(self, member: Member, flag: RunFlagged) -> None:
        """Handle the flags of a kept run: the machine judges when its share is done."""
        key = flag.arm, flag.point, flag.round
        if key in self._samples and flag.round in self._made.get(member.name, ()):
            self._store.take(flag)
            self._samples[key] = replace(self._samples[key], flags=flag.flags)

    def _bounds(self, member: Member) -> Bounds:
        return Bounds(member.name, self._arms, self._plan.points)

    def _say_dealt(self, assigned: Sequence[tuple[Member, Share]]) -> None:
        if len(assigned) <= _APART:
            for member, share in assigned:
                self._say(member, _rounds(share.assigned))
            return
        names = listed([member.name for member, _ in assigned], _NAMED)
        self._observer.tell(f"{names}: {_several(max(len(share.assigned) for _, share in assigned))} each, at most")

    def _say(self, member: Member, text: str) -> None:
        self._observer.tell(f"{member.name}: {text}")

    def result(self) -> Session:
        """Return the session in its final state."""
        return replace(self.session, status=FAILED if self._failed else DONE)


_Key = tuple[str, str, int]


def _key(sample: Sample) -> _Key:
    return sample.arm, sample.point, sample.round


def _rounds(rounds: Sequence[int]) -> str:
    """Return the items as the text of a line."""
    return f"{_several(len(rounds))}: {listed(list(map(str, rounds)), _NAMED)}"


def _several(count: int) -> str:
    return f"{count} round{'s' if count != 1 else ''}"
