"""One session whose blocks several like machines share. A block is made by one machine, whole, or it does not count:
what is compared is compared within it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

from kit.core.errors import KitError, RunError
from kit.core.listing import counted, listed
from kit.fleet.merge import check_digests, member_facts, merged_facts, rounds_facts
from kit.fleet.share import Share, local_session
from kit.fleet.watcher import Watcher
from kit.model.fact import ROUNDS_OF, WORKER, makers
from kit.model.member import Member
from kit.model.plan import Plan
from kit.model.sample import Sample
from kit.model.session import DONE, FAILED, Session
from kit.session.context import Keeper
from kit.session.guest_protocol import (
    Done,
    Failed,
    Finished,
    Flagged,
    Last,
    Measured,
    Message,
    Running,
    Tell,
    Updated,
)

#: Seconds between two writings of what machines tell of themselves: each holds what all of them have told.
_FACTS = 5.0
#: Seconds for which the other lost machines are waited for when one is back. Those that a network or a scheduler has
#: cut off come one after the other, and the first would be given what all of them had.
_RETURN = 30.0
#: Of so many machines each is told by itself what it is given.
_APART = 8
#: Of more so many are named.
_NAMED = 3


class SplitCourse:
    """``members``: those that were chosen; others of their class take the place of lost ones. Stops with the error of a
    machine where no other is left.

    The store knows which rounds a machine was given before it has any of its runs: who resumes the session after a
    crash tells by that whose they are, and by the runs themselves which rounds are whole.
    """

    def __init__(
        self, session: Session, plan: Plan, members: Sequence[Member], keeper: Keeper, observer: Watcher
    ) -> None:
        self._head = replace(session, samples=())
        self._plan = plan
        self._keeper, self._observer = keeper, observer
        self._chosen = {member.name: member for member in members}
        self._most = len(members)
        self._samples = {_key(sample): sample for sample in session.samples}
        whole = _whole(session, plan)
        self._made: dict[str, set[int]] = {}
        self._had = makers(session.facts)  # whom a round was given to last
        for number, name in self._had.items():
            if number in whole:
                self._made.setdefault(name, set()).add(number)
        kept = {number for numbers in self._made.values() for number in numbers}
        self._pending = [number for number in range(1, plan.rounds + 1) if number not in kept]
        self._given: dict[str, list[int]] = {}
        self._held: dict[str, dict[int, dict[_Key, Sample]]] = {}  # runs of rounds that are not whole yet
        self._able: dict[str, frozenset[str]] = {}
        self._told: dict[str, dict[str, str]] = {}
        self._barred: dict[str, KitError] = {}
        self._first: dict[tuple[str, str], tuple[Sample, str]] = {}
        for sample in session.samples:
            of = makers(session.facts).get(sample.block, "another machine")
            self._first.setdefault((sample.arm, sample.point), (sample, of))
        self._last: dict[str, Sample] = {}
        self._failed = False
        # Machines that begin amid the course: what they have made already, nobody has heard of as a run that is over.
        self._anew: set[str] = set()
        self._awaited: set[str] = set()  # those of them that have not begun a run
        self._dealt = False
        self._lost: set[str] = set()
        self._return_until = 0.0  # on the monotonic clock
        self._facts_due = False
        self._facts_stored = 0.0

    @property
    def session(self) -> Session:
        """With what counts so far."""
        return replace(self._head, samples=tuple(self._samples.values()))

    @property
    def done(self) -> bool:
        return self._failed or not (self._pending or self._given)

    @property
    def left(self) -> int:
        """Runs, where no machine is lost from now on: each that begins warms its caches once."""
        begin = len(self._anew) if self._given else min(self._most, len(self._pending))
        rounds = len(self._pending) + sum(map(len, self._given.values()))
        warm = begin if self._plan.cache == "warm" else 0
        return (rounds + warm) * len(self._plan.arms) * len(self._plan.points)

    @property
    def waits(self) -> bool:
        return bool(self._lost) and time.monotonic() < self._return_until

    def deal(self, idle: Sequence[Member]) -> Sequence[tuple[Member, Share]]:
        back = self._lost.intersection(member.name for member in idle)
        if back:
            self._lost -= back
            self._return_until = time.monotonic() + _RETURN
        if self.waits:
            return []
        able = [member for member in idle if self._may(member)]
        able.sort(key=lambda member: member.name not in self._chosen)
        takers = able[: max(0, self._most - len(self._given))][: len(self._pending)]
        if not takers and self._pending and not self._given and self._barred:
            raise next(iter(self._barred.values()))
        if not takers:
            return []
        found = []
        for member, blocks in zip(takers, self._dealt_to([member.name for member in takers]), strict=True):
            self._had |= dict.fromkeys(blocks, member.name)
            self._given[member.name] = blocks
            self._held[member.name] = {}
            self._chosen.setdefault(member.name, member)
            session = local_session(self._head, member.name).with_facts(member_facts([member]))
            found.append((member, Share(session, tuple(blocks), self._head.id)))
        self._say_dealt(found)
        self._pending = []
        if self._dealt:
            names = {member.name for member in takers}
            self._anew, self._awaited = self._anew | names, self._awaited | names
        self._dealt = True
        self._store_facts()
        return found

    def _dealt_to(self, names: Sequence[str]) -> list[list[int]]:
        """What is pending, as many for each as for any other, but for one at most. Who had a round before has it again:
        he may have made it, and nobody heard of it."""
        each, more = divmod(len(self._pending), len(names))
        room = {name: each + (number < more) for number, name in enumerate(names)}
        dealt: dict[str, list[int]] = {name: [] for name in names}
        others = []
        for block in self._pending:
            name = self._had.get(block, "")
            if name in room and len(dealt[name]) < room[name]:
                dealt[name].append(block)
            else:
                others.append(block)
        turns = cycle(names)
        for block in others:
            name = next(name for name in turns if len(dealt[name]) < room[name])
            dealt[name].append(block)
        return [sorted(dealt[name]) for name in names]

    def _may(self, member: Member) -> bool:
        alike = next(iter(self._chosen.values()))
        same = (member.kind, member.kit_version, member.probe) == (alike.kind, alike.kit_version, alike.probe)
        return same and member.name not in self._barred and member.name not in self._given

    def hear(self, member: Member, message: Message) -> None:
        self._observer.machine(member.name)
        match message:
            case Tell():
                self._observer.tell(message.text)
            case Running():
                self._begin_anew(member)
                self._observer.running(message.step, message.phase)
            case Measured():
                sample = replace(message.sample, log=f"{member.name}:{message.sample.log}")
                self._last[member.name] = sample
                if sample.kind == "measured":
                    self._held[member.name].setdefault(sample.block, {})[_key(sample)] = sample
                    self._keep_whole(member, [sample.block])
            case Finished():
                self._observer.finished(message.step, self._last[member.name])
            case Updated():
                self._update(member, message.session)
            case Flagged():
                self._flag(member, message)
            case _:
                pass
        self._observer.machine("")
        if self._facts_due and time.monotonic() - self._facts_stored > _FACTS:
            self._store_facts()

    def _begin_anew(self, member: Member) -> None:
        """What is left is counted anew when the last of them begins to run."""
        if member.name in self._awaited:
            self._awaited.discard(member.name)
            if not self._awaited:
                self._observer.machine("")
                self._observer.planned(self.left, len(self._samples))
                self._observer.machine(member.name)
                self._anew.clear()

    def end(self, member: Member, last: Last | None) -> None:
        self._anew.discard(member.name)
        self._awaited.discard(member.name)
        blocks = self._given.get(member.name, [])
        match last:
            case Done():
                self._update(member, last.session)
                self._failed = self._failed or last.session.status == FAILED
            case Failed():
                self._barred[member.name] = last.error()
                self._say(member, f"gave up: {last.message}")
            case None:
                self._lost.add(member.name)
        self._given.pop(member.name, None)
        self._held.pop(member.name, None)
        if blocks and not self._failed:
            self._say(member, f"{_rounds(blocks)}: given to another")
            self._pending = sorted([*self._pending, *blocks])
        if self.done:
            self.settle()

    def _update(self, member: Member, session: Session) -> None:
        """New facts, and which arms can't run there: of one session they are the same everywhere."""
        able = frozenset(session.arms) - {item.arm for item in session.not_run}
        other = next((name for name in self._able if name != member.name), member.name)  # all the others are as it is
        if self._able.get(other, able) != able:
            arms = ", ".join(sorted(self._able[other] ^ able))
            raise RunError(
                f"{member.name} and {other} are not alike: {arms} can't run on one of them",
                "kit doctor there says why; or leave out the machine: --where 'name!=…'",
            )
        self._able[member.name] = able
        self._told[member.name] = dict(session.facts)
        if self._head.not_run != session.not_run:
            self._head = replace(self._head, not_run=session.not_run)
            self._facts_stored = 0.0  # which rounds are whole hangs on it
        self._facts_due = True
        self._keep_whole(member, list(self._held.get(member.name, ())))

    def settle(self) -> None:
        """Store what is known of machines and rounds and is not stored yet, at the end or in the midst of a course."""
        if self._facts_due:
            self._store_facts()

    def _store_facts(self) -> None:
        members = [self._chosen[name] for name in sorted(self._told) if name in self._chosen]
        held = {name: [*self._made.get(name, ()), *self._given.get(name, ())] for name in {**self._made, **self._given}}
        rounds = list(rounds_facts({name: blocks for name, blocks in held.items() if blocks}))
        gone = {fact.key for fact in ROUNDS_OF.find(self._head.facts)}
        before = {key: text for key, text in self._head.facts.items() if key not in gone}
        head = replace(self._head, facts={**before, **merged_facts(self._told)})
        if members:
            head = head.with_facts(member_facts(members))
        if names := sorted({*held, *self._told}, key=counted):
            head = head.with_facts([WORKER.fact(", ".join(names))])
        self._head = head.with_facts(rounds)
        self._facts_due, self._facts_stored = False, time.monotonic()
        self._keeper.update(self._head)

    def _keep_whole(self, member: Member, blocks: Sequence[int]) -> None:
        """Keep what the machine has of those of the rounds that it was given and that are complete."""
        if member.name not in self._able:
            return
        wanted = {(arm, point) for arm in self._able[member.name] for point in self._plan.points}
        for block in blocks:
            mine = self._held[member.name].get(block, {})
            if block in self._given.get(member.name, ()) and {(arm, point) for arm, point, _ in mine} >= wanted:
                self._keep(member, block, list(mine.values()))
                del self._held[member.name][block]

    def _keep(self, member: Member, block: int, samples: Sequence[Sample]) -> None:
        for sample in samples:
            first, of_first = self._first.setdefault((sample.arm, sample.point), (sample, member.name))
            check_digests(first, of_first, sample, member.name)
        self._keeper.add_sample(self._head.id, *samples)
        self._samples.update({_key(sample): sample for sample in samples})
        self._given[member.name].remove(block)
        self._made.setdefault(member.name, set()).add(block)
        self._facts_due = True

    def _flag(self, member: Member, flag: Flagged) -> None:
        """Of a run that is kept: the machine judges when its share is done."""
        if flag.block in self._made.get(member.name, ()):
            self._keeper.set_flags(self._head.id, flag.arm, flag.point, flag.block, flag.flags)
            key = flag.arm, flag.point, flag.block
            self._samples[key] = replace(self._samples[key], flags=flag.flags)

    def _say_dealt(self, dealt: Sequence[tuple[Member, Share]]) -> None:
        if len(dealt) <= _APART:
            for member, share in dealt:
                self._say(member, _rounds(share.blocks))
            return
        names = listed([member.name for member, _ in dealt], _NAMED)
        self._observer.tell(f"{names}: {_several(max(len(share.blocks) for _, share in dealt))} each, at most")

    def _say(self, member: Member, text: str) -> None:
        self._observer.tell(f"{member.name}: {text}")

    def result(self) -> Session:
        """The session in its final state."""
        return replace(self.session, status=FAILED if self._failed else DONE)


_Key = tuple[str, str, int]


def _key(sample: Sample) -> _Key:
    return sample.arm, sample.point, sample.block


def _whole(session: Session, plan: Plan) -> set[int]:
    """Rounds of which the session has every run."""
    able = {str(arm) for arm in plan.arms} - {item.arm for item in session.not_run}
    wanted = {(arm, point) for arm in able for point in plan.points}
    found: dict[int, set[tuple[str, str]]] = {}
    for sample in session.samples:
        found.setdefault(sample.block, set()).add((sample.arm, sample.point))
    return {block for block, had in found.items() if had >= wanted}


def _rounds(blocks: Sequence[int]) -> str:
    """As a line holds them."""
    return f"{_several(len(blocks))}: {listed(list(map(str, blocks)), _NAMED)}"


def _several(count: int) -> str:
    return f"{count} round{'s' if count != 1 else ''}"
