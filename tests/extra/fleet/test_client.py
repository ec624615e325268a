"""What a client asks of a scheduler, and by which names it gives shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from kit.core.codec import UnreadableError, encode
from kit.core.errors import RunError
from kit.extra.fleet.address import Address
from kit.extra.fleet.client import dispatch
from kit.extra.fleet.client.client import Ended, Fleet, Said
from kit.extra.fleet.client.dispatch import Dispatch
from kit.extra.fleet.share import Share
from kit.model.event import Event, Told
from kit.model.machine import Member, Progress
from kit.session.wire.messages import Done, Failed, Last
from tests.extra.fleet.machines import FIRST, ONE, TWO


class Scheduler:
    """Dask's client and its scheduler's side: what a poll keeps has no workers, nor more than five."""

    status = "running"
    id = "client"

    def __init__(self, members: Sequence[Member]) -> None:
        self.scheduler = self
        self.workers = {
            f"tcp://{member.name}": {"kit": encode(member), "last_seen": 1.0, "metrics": {}} for member in members
        }
        self.busy: dict[str, tuple[str, ...]] = {}
        self.topics: dict[str, Callable[[Any], None]] = {}

    def subscribe_topic(self, topic: str, on_message: Callable[[Any], None]) -> None:
        self.topics[topic] = on_message

    def scheduler_info(self) -> dict[str, Any]:
        return {"workers": {}}

    async def identity(self, n_workers: int) -> dict[str, Any]:
        return {"workers": dict(list(self.workers.items())[: n_workers if n_workers >= 0 else None])}

    async def processing(self) -> dict[str, tuple[str, ...]]:
        return self.busy

    def sync(self, question: Callable[..., Any], callback_timeout: float, **given: Any) -> Any:
        try:
            question(**given).send(None)
        except StopIteration as answer:
            return answer.value


def test_all_machines_are_asked_for_each_time() -> None:
    fleet = Fleet(cast(Any, Scheduler([ONE, TWO])))
    assert [member.name for member in fleet.members().values()] == ["one", "two"]


def test_how_far_a_machine_is_comes_with_what_the_scheduler_knows_of_it() -> None:
    scheduler = Scheduler([ONE, TWO])
    scheduler.busy = {"tcp://one": ("a",), "tcp://two": ("b",)}
    scheduler.workers["tcp://one"]["metrics"] = {"kit": {"a": encode(Progress(3, 9, 60.0))}}
    scheduler.workers["tcp://two"]["metrics"] = {"kit": {"b": None}}
    status = Fleet(cast(Any, scheduler)).status()
    assert [item.runs[0].progress for item in status] == [Progress(3, 9, 60.0), None]


def test_what_dask_says_of_the_client_is_no_machines_word() -> None:
    """What machines say is said under the client's own name, for the scheduler to forget it with the client."""
    scheduler = Scheduler([ONE])
    fleet = Fleet(cast(Any, scheduler))
    scheduler.topics["client"]((1.0, {"action": "add-client", "client": "client"}))
    assert fleet.next(0) is None


class Whole:
    """A course of one share."""

    done = False
    waits = False

    def assign(self, idle: Sequence[Member]) -> Sequence[tuple[Member, Share]]:
        return [(member, Share(FIRST)) for member in idle]

    def on_event(self, member: Member, event: Event) -> None:
        return None

    def end(self, member: Member, last: Last | None) -> None:
        return None


class Given:
    """A fleet that notes what it is given. ``there``: its one machine; None where that is lost."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.there: Member | None = ONE

    def members(self) -> dict[str, Member]:
        return {"tcp://one": self.there} if self.there else {}

    def give(self, key: str, share: Share, address: str) -> None:
        self.keys.append(key)

    def take_back(self, key: str) -> None:
        return None

    def silence(self, address: str) -> float:
        return 0.0

    def why_lost(self, address: str) -> str:
        return "the connection broke"


def test_no_client_gives_a_share_by_anothers_key() -> None:
    """A resumed session is dealt as it was at first: by the same key Dask would join what was given up."""
    fleet = Given()
    for _ in range(2):
        Dispatch(Address("127.0.0.1", 1), Whole(), lambda text: None, 1)._look(cast(Any, fleet))
    assert len(set(fleet.keys)) == 2 and all(FIRST.id in key for key in fleet.keys)


def test_a_death_counts_once() -> None:
    """It is known of a worker for as long as its process lives, whatever it is lost of later."""
    fleet, told = Given(), list[str]()
    fleet.there = known = replace(ONE, died="killed by signal 11 (Segmentation fault) at 01:00:00")
    dispatch = Dispatch(Address("127.0.0.1", 1), Whole(), told.append, 60)
    for _ in range(4):
        dispatch._look(cast(Any, fleet))
        fleet.there = None
        dispatch._look(cast(Any, fleet))
        fleet.there = known
    assert len(fleet.keys) == 4
    assert "one: is back" in told and not any("Segmentation" in line for line in told)


def test_a_machine_whose_worker_dies_again_and_again_is_given_no_more_and_said_why() -> None:
    fleet, told = Given(), list[str]()
    dispatch = Dispatch(Address("127.0.0.1", 1), Whole(), told.append, 60)
    for hour in range(1, 5):
        dispatch._look(cast(Any, fleet))
        if hour < 4:
            fleet.there = None
            dispatch._look(cast(Any, fleet))
            fleet.there = replace(ONE, died=f"killed by signal 11 (Segmentation fault) at 0{hour}:00:00")
    assert len(fleet.keys) == 3
    assert told[:3] == [
        "one: was lost: the connection broke",
        "no machine is left: waits 60 s for one",
        "one: is back; its worker was killed by signal 11 (Segmentation fault) at 01:00:00",
    ]
    assert told[-1].endswith("(Segmentation fault) at 03:00:00, and takes no further part")
    dispatch.patience = 0
    with pytest.raises(RunError, match="no machine is left; lost: ") as raised:
        dispatch._look(cast(Any, fleet))
    assert raised.value.message.endswith("(the connection broke), one's worker was killed by signal 11 "
                                         "(Segmentation fault) at 03:00:00")  # fmt: skip


class Ending(Given):
    """A fleet whose shares end one after the other. A look takes a tenth of a second of the clock."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.now = 0.0
        self.looks = 0
        self.machines = {f"tcp://{number}": replace(ONE, name=str(number)) for number in range(count)}

    def monotonic(self) -> float:
        return self.now

    def members(self) -> dict[str, Member]:
        self.looks += 1
        self.now += 0.1
        return self.machines

    def next(self, timeout: float) -> Ended | None:
        self.now += 0.001
        return Ended(self.keys.pop(0), Done.by(FIRST)) if self.keys else None


class Once(Whole):
    """Each machine is given one share."""

    def __init__(self) -> None:
        self.left = 100

    @property
    def done(self) -> bool:  # type: ignore[override]
        return not self.left

    def assign(self, idle: Sequence[Member]) -> Sequence[tuple[Member, Share]]:
        return [(member, Share(FIRST)) for member in idle] if self.left == 100 else []

    def end(self, member: Member, last: Last | None) -> None:
        self.left -= 1


def test_machines_that_end_one_after_the_other_do_not_each_cost_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, course = Ending(100), Once()
    monkeypatch.setattr(dispatch, "time", fleet)
    Dispatch(Address("127.0.0.1", 1), course, lambda text: None, 1)._work(cast(Any, fleet))
    assert course.done and fleet.looks <= 2


class PhaseLog(Ending):
    """A fleet whose one machine says a word."""

    def next(self, timeout: float) -> Said | None:  # type: ignore[override]
        return Said(self.keys.pop(0), Told("a word")) if self.keys else None


class Distrustful(Once):
    def __init__(self) -> None:
        super().__init__()
        self.last: Last | None = None

    def on_event(self, member: Member, event: Event) -> None:
        raise UnreadableError("it broke the protocol")

    def end(self, member: Member, last: Last | None) -> None:
        self.left, self.last = 0, last


def test_a_machine_that_says_what_it_may_not_has_failed() -> None:
    course = Distrustful()
    Dispatch(Address("127.0.0.1", 1), course, lambda text: None, 1)._work(cast(Any, PhaseLog(1)))
    assert isinstance(course.last, Failed) and course.last.message == "it broke the protocol"
