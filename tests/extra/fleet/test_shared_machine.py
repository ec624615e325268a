"""Several workers of one machine: it takes part by one of them, or by all if each has a lock of its own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from kit.cli.compare import report
from kit.core.paths import find_paths
from kit.extra.fleet.address import Address
from kit.extra.fleet.client import run
from kit.extra.fleet.client.split import SplitCourse
from kit.model.event import Event, FactsKnown
from kit.model.fact import ROUNDS_OF, machines_by_worker, stored
from kit.model.machine import Member, Selection
from kit.report.text.progress import Quiet
from tests.extra.fleet.machines import FIRST, ONE, TWO
from tests.shared_night import PENALTIES, shared
from tests.stores import new_store

AGAIN = replace(ONE, name="again")


@dataclass
class Kept:
    """The facts that the client's store gets last."""

    facts: dict[str, str] = field(default_factory=dict)

    def take(self, *events: Event) -> None:
        for event in events:
            if isinstance(event, FactsKnown):
                self.facts = dict(event.facts)


class Hears(Quiet):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def tell(self, text: str) -> None:
        self.said.append(text)


def course(kept: Kept, *members: Member) -> SplitCourse:
    session = replace(FIRST, request=replace(FIRST.request, interleave="off"))
    return SplitCourse(session, session.kept_plan(), members, kept, Quiet())


def test_a_second_worker_gets_no_rounds_while_the_first_has_some() -> None:
    split = course(Kept(), ONE, TWO)
    assert [member.name for member, _ in split.assign([ONE, TWO])] == ["one", "two"]
    split.end(TWO, None)
    split._return_until = 0.0  # as long after the loss
    assert split.assign([AGAIN]) == []  # it would wait at the machine's lock
    split.end(ONE, None)
    split._return_until = 0.0
    assert [member.name for member, _ in split.assign([AGAIN, replace(AGAIN, name="more")])] == ["again"]


def test_the_session_knows_which_worker_is_on_which_machine() -> None:
    kept = Kept()
    members = [replace(member, together=True) for member in (ONE, AGAIN)]
    split = course(kept, *members)
    assert [member.name for member, _ in split.assign(members)] == ["one", "again"]
    for member in members:
        split.on_event(member, FactsKnown.of(replace(FIRST, facts={"kernel": "6"})))
    split.settle()
    assert machines_by_worker(kept.facts) == {"one": "m", "again": "m"} and kept.facts["machine"] == "m"


@pytest.mark.parametrize(
    ("together", "chosen", "says"),
    [
        (False, (ONE,), ["one, again are workers of one machine: one alone takes part"]),
        (True, (ONE, AGAIN), ["one, again are workers of one machine: they disturb each other, and count as one"]),
        (False, (TWO,), []),
    ],
)
def test_workers_of_one_machine_are_named_before_the_session(
    together: bool, chosen: tuple[Member, ...], says: list[str], tmp_path: Path
) -> None:
    hears = Hears()
    store = new_store(tmp_path / "kit.db")
    context = run.FleetContext(Address("127.0.0.1", 1), Selection(), find_paths(), store, hears)
    run._tell_shared(chosen, [replace(member, together=together) for member in (ONE, AGAIN, TWO)], context)
    assert hears.said == says


@pytest.mark.parametrize(("workers", "said"), [(1, False), (2, True)])
def test_one_worker_alone_has_no_second_figure(workers: int, said: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """That of machines is another estimate than the session's own."""
    session = shared()
    names = list(PENALTIES)[:workers]
    rounds = {name: [str(number) for number in range(1, 17) if number % workers == i] for i, name in enumerate(names)}
    facts = {key: text for key, text in session.facts.items() if not key.startswith("rounds of ")}
    facts |= stored(ROUNDS_OF.fact(", ".join(numbers), name) for name, numbers in rounds.items())
    report(replace(session, facts=facts), {})
    assert ("are the minimum to show how machines differ" in " ".join(capsys.readouterr().out.split())) == said
