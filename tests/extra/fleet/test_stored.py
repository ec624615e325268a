"""Which stored sessions a fleet's answer is of: the newest of each machine, by SQLite and by PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kit.core.errors import UsageError
from kit.extra.fleet.stored import FleetQuestion, answer_fleet
from kit.model.fact import ROUNDS_OF
from kit.model.session import DONE, RUNNING
from kit.store import SessionFilter, Store, open_store
from tests.nights import night, on
from tests.stores import new_store


def fill(store: Store) -> None:
    """Three machines with ten sessions each, one with one; an unfinished one and one of another scenario are newer."""
    for machine in range(3):
        for number in range(10):
            store.add(on(machine, number, 0.05))
    store.add(on(7, 0, 0.05))
    store.add(replace(on(0, 20, 0.05), status=RUNNING))
    store.add(replace(on(0, 21, 0.05), title="other"))


def check(store: Store) -> None:
    fill(store)
    wanted = SessionFilter("mine", status=DONE)
    found = store.newest_of_each(wanted, 10)
    assert [item.id for item in found] == [f"m{i}-{n:03}" for n in (9, 8) for i in (2, 1, 0)] + ["m7-000"]
    assert len(store.newest_of_each(wanted, 1)) == 4
    assert len(store.newest_of_each(replace(wanted, since=found[-1].created + 1), 1000)) == 27
    fleet = answer_fleet(store, FleetQuestion("mine"))
    sessions = [machine.session for machine in fleet.arms[0].whole.machines]
    assert sessions == ["m0-009", "m1-009", "m2-009", "m7-000"]
    assert [item.id for item in store.newest_of_each(wanted, 10, 1)] == ["m2-008", "m1-008", "m0-008"]
    assert store.newest_of_each(wanted, 1, 1) == ()
    store.add(replace(on(1, 30, 0.05), kit_version="2"))
    store.add(replace(on(2, 30, 0.05), arms=("bare",), baselines=()))
    fleet = answer_fleet(store, FleetQuestion("mine"))
    assert [machine.session for machine in fleet.arms[0].whole.machines] == sessions and not fleet.left_out


def test_the_newest_of_each_machine(tmp_path: Path) -> None:
    check(new_store(tmp_path / "kit.db"))


@pytest.mark.machine
@pytest.mark.unmeasured
def test_the_newest_of_each_machine_by_a_server(database: str, tmp_path: Path) -> None:
    check(open_store(database, tmp_path / "kit.db"))


def test_a_session_that_machines_shared_is_answered_by_itself(tmp_path: Path) -> None:
    made = night(1, 0.1)
    facts = {**made.facts, "worker": "one, two"}
    for name, rounds in (("one", "1, 3"), ("two", "2, 4")):
        facts |= {(fact := ROUNDS_OF.fact(rounds, name)).key: fact.text}
    store = new_store(tmp_path / "kit.db")
    store.add(replace(made, facts=facts))
    store.add(on(1, 1, 0.1))
    assert answer_fleet(store, FleetQuestion(made.id, phase="clean")).arms[0].phase == "clean"
    for asked in (FleetQuestion(made.id, "large"), FleetQuestion(made.id, since=1.0)):
        with pytest.raises(UsageError, match="is one session"):
            answer_fleet(store, asked)
    with pytest.raises(UsageError, match="ran on one machine"):
        answer_fleet(store, FleetQuestion("m1-001"))
