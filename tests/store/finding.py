"""What every store finds of its sessions without reading all of them."""

from __future__ import annotations

from dataclasses import replace

from kit.model.session import DONE, RUNNING
from kit.store import SessionFilter, Store
from tests.nights import night

LONG = "𝄞" * 1000


def check_finding(store: Store) -> None:
    """Of a store that is empty."""
    for number, (title, machine, status) in enumerate(
        [("mine", "ab1", DONE), ("mine", "ab2", DONE), ("it's 100 %", "b_%", DONE), (LONG, "", RUNNING)]
    ):
        session = night(number, 0.05, rounds=2, machine=machine)
        arms = ("bare", "layer:overlay2") if number else ("bare", "layer:overlay2", 'layer:vfs+x="%"')
        store.create(replace(session, title=title, status=status, arms=arms, samples=()))

    def found(*wanted: str, most: int | None = None, skip: int = 0) -> str:
        return "".join(item.id[-1] for item in store.list(SessionFilter(*wanted), most, skip))

    assert (found(), found(most=2), found(most=2, skip=1)) == ("3210", "32", "21")
    assert (found("mine"), found("min"), found("it's 100 %"), found(LONG)) == ("10", "", "2", "3")
    assert (found("", "layer:overlay2"), found("", 'layer:vfs+x="%"'), found("", "layer")) == ("3210", "0", "")
    assert (found("", "", "ab"), found("", "", "b_"), found("", "", "ab2"), found("", "", "%")) == ("10", "2", "1", "")
    assert (found("", "", "", RUNNING), found("mine", "layer:overlay2", "ab1", DONE)) == ("3", "0")
    moment = night(2, 0.05).created
    assert [item.id[-1] for item in store.list(SessionFilter(until=moment))] == ["2", "1", "0"]
    assert (store.count(), store.count(SessionFilter("mine")), store.count(most=3)) == (4, 2, 3)
    assert list(store.titles()) == ["it's 100 %", "mine", LONG[:100]]
    assert {machine: facts["machine"] for machine, facts in store.machines().items()} == {
        "ab1": "ab1",
        "ab2": "ab2",
        "b_%": "b_%",
    }
    assert list(store.arms()) == ["bare", "layer:overlay2", 'layer:vfs+x="%"']
    assert list(store.names("2026-")) == [f"2026-000{number}" for number in (3, 2, 1, 0)]
    assert list(store.names("2026_")) == [] and store.get("2026-0002").title == "it's 100 %"
    for number, (worker, machine) in enumerate(
        [("ab-1", "c1"), ("Zürich_1", "c2"), ("Zürich_1", "c2"), ("a, b", "c1, c2")]
    ):
        session = night(4 + number, 0.05, rounds=2, machine=machine, worker=worker)
        store.create(replace(session, samples=()))
    assert (found("", "", "ab"), found("", "", "ab-"), found("", "", "Zürich_1"), found("", "", "Z")) == (
        "10",
        "4",
        "65",
        "65",
    )
    assert (
        found("", "", "a, b"),
        found("", "", "c1"),
        found("", "", "1"),
        store.count(SessionFilter(machine="Z")),
    ) == (
        "7",
        "74",
        "",
        2,
    )
    assert store.machines()["c2"]["worker"] == "Zürich_1"
