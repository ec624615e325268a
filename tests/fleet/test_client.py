"""What a client asks of a scheduler, and by which names it gives shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from kit.core.codec import encode
from kit.fleet.address import Address
from kit.fleet.client import Fleet
from kit.fleet.dispatch import Dispatch
from kit.fleet.share import Share
from kit.model.member import Member
from kit.session.guest_protocol import Last, Message
from tests.fleet.machines import FIRST, ONE, TWO


class Scheduler:
    """Dask's client and its scheduler's side: what a poll keeps has no workers, nor more than five."""

    status = "running"

    def __init__(self, members: Sequence[Member]) -> None:
        self.scheduler = self
        self.workers = {f"tcp://{member.name}": {"kit": encode(member), "last_seen": 1.0} for member in members}

    def scheduler_info(self) -> dict[str, Any]:
        return {"workers": {}}

    async def identity(self, n_workers: int) -> dict[str, Any]:
        return {"workers": dict(list(self.workers.items())[: n_workers if n_workers >= 0 else None])}

    def sync(self, question: Callable[..., Any], callback_timeout: float, **given: Any) -> Any:
        try:
            question(**given).send(None)
        except StopIteration as answer:
            return answer.value


def test_all_machines_are_asked_for_each_time() -> None:
    fleet = Fleet(cast(Any, Scheduler([ONE, TWO])), "")
    assert [member.name for member in fleet.members().values()] == ["one", "two"]


class Whole:
    """A course of one share."""

    topic = FIRST.id
    done = False

    def deal(self, idle: Sequence[Member]) -> Sequence[tuple[Member, Share]]:
        return [(idle[0], Share(FIRST))]

    def hear(self, member: Member, message: Message) -> None:
        return None

    def end(self, member: Member, last: Last | None) -> None:
        return None


class Given:
    """A fleet that notes what it is given."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def members(self) -> dict[str, Member]:
        return {"tcp://one": ONE}

    def give(self, key: str, share: Share, address: str) -> None:
        self.keys.append(key)


def test_no_client_gives_a_share_by_anothers_key() -> None:
    """A resumed session is dealt as it was at first: by the same key Dask would join what was given up."""
    fleet = Given()
    for _ in range(2):
        Dispatch(Address("127.0.0.1", 1), Whole(), lambda text: None, 1)._look(cast(Any, fleet))
    assert len(set(fleet.keys)) == 2 and all(FIRST.id in key for key in fleet.keys)
