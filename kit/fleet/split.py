"""One session whose blocks several like machines share. A block is made by one machine, whole, or it does not count:
what is compared is compared within it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kit.analysis.split_session import makers
from kit.core.errors import KitError, RunError
from kit.fleet.merge import check_digests, member_facts, merged_facts, rounds_facts
from kit.fleet.share import Share, local_session
from kit.fleet.watcher import Watcher
from kit.model.fact import WORKER
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


class SplitCourse:
    """``members``: those that were chosen; others of their class take the place of lost ones. Stops with the error of a
    machine where no other is left."""

    def __init__(
        self, session: Session, plan: Plan, members: Sequence[Member], keeper: Keeper, observer: Watcher
    ) -> None:
        self.session = session
        self._plan = plan
        self._keeper, self._observer = keeper, observer
        self._chosen = {member.name: member for member in members}
        self._most = len(members)
        self._made: dict[str, set[int]] = {}
        for number, name in makers(session.facts).items():
            self._made.setdefault(name, set()).add(number)
        kept = {number for numbers in self._made.values() for number in numbers}
        self._pending = [number for number in range(1, plan.rounds + 1) if number not in kept]
        self._given: dict[str, list[int]] = {}
        self._held: dict[str, dict[tuple[int, str, str], Sample]] = {}
        self._able: dict[str, frozenset[str]] = {}
        self._told: dict[str, dict[str, str]] = {}
        self._barred: dict[str, KitError] = {}
        self._first: dict[tuple[str, str], tuple[Sample, str]] = {}
        for sample in session.samples:
            of = makers(session.facts).get(sample.block, "another machine")
            self._first.setdefault((sample.arm, sample.point), (sample, of))
        self._last: dict[str, Sample] = {}
        self._failed = False

    @property
    def topic(self) -> str:
        return self.session.id

    @property
    def done(self) -> bool:
        return self._failed or not (self._pending or self._given)

    @property
    def left(self) -> int:
        """Runs, where no machine is lost: each warms its caches once."""
        warm = min(self._most, len(self._pending)) if self._plan.cache == "warm" else 0
        return (len(self._pending) + warm) * len(self._plan.arms) * len(self._plan.points)

    def deal(self, idle: Sequence[Member]) -> Sequence[tuple[Member, Share]]:
        able = [member for member in idle if self._may(member)]
        able.sort(key=lambda member: member.name not in self._chosen)
        takers = able[: max(0, self._most - len(self._given))][: len(self._pending)]
        if not takers and self._pending and not self._given and self._barred:
            raise next(iter(self._barred.values()))
        found = []
        for number, member in enumerate(takers):
            blocks = self._pending[number :: len(takers)]
            self._given[member.name] = blocks
            self._held[member.name] = {}
            self._chosen.setdefault(member.name, member)
            session = local_session(self.session, member.name).with_facts(member_facts([member]))
            found.append((member, Share(session, tuple(blocks), self.session.id)))
            self._say(member, f"rounds {', '.join(map(str, blocks))}")
        if takers:
            self._pending = []
        return found

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
                self._observer.running(message.step, message.phase)
            case Measured():
                sample = replace(message.sample, log=f"{member.name}:{message.sample.log}")
                self._last[member.name] = sample
                if sample.kind == "measured":
                    self._held[member.name][sample.block, sample.arm, sample.point] = sample
                    self._keep_whole(member)
            case Finished():
                self._observer.finished(message.step, self._last[member.name])
            case Updated():
                self._update(member, message.session)
            case Flagged():
                self._flag(member, message)
            case _:
                pass
        self._observer.machine("")

    def end(self, member: Member, last: Last | None) -> None:
        blocks = self._given.pop(member.name, [])
        match last:
            case Done():
                self._update(member, last.session)
                self._given[member.name] = blocks
                self._keep_whole(member)
                blocks = self._given.pop(member.name)
                self._failed = self._failed or last.session.status == FAILED
            case Failed():
                self._barred[member.name] = last.error()
                self._say(member, f"gave up: {last.message}")
            case None:
                pass
        self._held.pop(member.name, None)
        if blocks and not self._failed:
            self._say(member, f"rounds {', '.join(map(str, blocks))} are given to another")
            self._pending = sorted([*self._pending, *blocks])

    def _update(self, member: Member, session: Session) -> None:
        """New facts, and which arms can't run there: of one session they are the same everywhere."""
        able = frozenset(session.arms) - {item.arm for item in session.not_run}
        for name, theirs in self._able.items():
            if theirs != able:
                arms = ", ".join(sorted(theirs ^ able))
                raise RunError(
                    f"{member.name} and {name} are not alike: {arms} can't run on one of them",
                    "kit doctor there says why; or leave out the machine: --where 'name!=…'",
                )
        self._able[member.name] = able
        self._told[member.name] = dict(session.facts)
        self.session = replace(self.session, not_run=session.not_run)
        self._store_facts()

    def _store_facts(self) -> None:
        members = [self._chosen[name] for name in self._told if name in self._chosen]
        facts = {**self.session.facts, **merged_facts(self._told)}
        session = replace(self.session, facts=facts)
        if members:
            names = ", ".join(sorted({*self._made, *self._told}))
            session = session.with_facts([*member_facts(members), WORKER.fact(names), *rounds_facts(self._made)])
        self.session = session
        self._keeper.update(session)

    def _keep_whole(self, member: Member) -> None:
        """Keep what the machine has of blocks that are complete."""
        held = self._held[member.name]
        if member.name not in self._able:
            return
        wanted = {(arm, point) for arm in self._able[member.name] for point in self._plan.points}
        for block in list(self._given.get(member.name, ())):
            mine = [sample for (number, *_), sample in held.items() if number == block]
            if {(sample.arm, sample.point) for sample in mine} >= wanted:
                self._keep(member, block, mine)

    def _keep(self, member: Member, block: int, samples: Sequence[Sample]) -> None:
        for sample in samples:
            first, of_first = self._first.setdefault((sample.arm, sample.point), (sample, member.name))
            check_digests(first, of_first, sample, member.name)
        for sample in samples:
            self._keeper.add_sample(self.session.id, sample)
        self.session = replace(self.session, samples=(*self.session.samples, *samples))
        self._given[member.name].remove(block)
        self._made.setdefault(member.name, set()).add(block)
        self._store_facts()

    def _flag(self, member: Member, flag: Flagged) -> None:
        """Of a run that is kept: the machine judges when its share is done."""
        if flag.block in self._made.get(member.name, ()):
            self._keeper.set_flags(self.session.id, flag.arm, flag.point, flag.block, flag.flags)
            key = flag.arm, flag.point, flag.block
            samples = tuple(
                replace(item, flags=flag.flags) if (item.arm, item.point, item.block) == key else item
                for item in self.session.samples
            )
            self.session = replace(self.session, samples=samples)

    def _say(self, member: Member, text: str) -> None:
        self._observer.tell(f"{member.name}: {text}")

    def result(self) -> Session:
        """The session in its final state."""
        return replace(self.session, status=FAILED if self._failed else DONE)
