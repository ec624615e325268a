"""What a fleet's machines found before: some machines of each class with all that tells a change, by SQLite and by
PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kit.extra.history import fleet_history
from kit.extra.history.fleet_history import Figure, find_fleet_past
from kit.model.machine_class import class_of
from kit.store import Store, open_store
from tests.nights import on
from tests.stores import new_store

FIGURE = Figure("mine", "layer:overlay2")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_history, "_MACHINES", 4)
    monkeypatch.setattr(fleet_history, "_LEAST", 2)
    monkeypatch.setattr(fleet_history, "_SESSIONS", 12)


def check(store: Store) -> None:
    """Nine machines of one class and one of another, each with four nights; a newer session that two have shared."""
    for machine in range(10):
        for number in range(4):
            made = on(machine, number, 0.05)
            store.add(replace(made, facts={**made.facts, "class": "small" if machine == 9 else "large"}))
    made = on(3, 9, 0.05)
    store.add(replace(made, facts={**made.facts, "worker": "builder-3, builder-4", "machine": "id3, id4"}))

    large = find_fleet_past(store, FIGURE, "id7", "large")
    machines = {entry.worker for entry in large.entries}
    assert len(machines) == 4 and "builder-7" in machines and large.drawn == {"large": 9} and large.there == 9
    assert len(large.entries) == 12 and min(entry.created for entry in large.entries) > on(0, 0, 0.05).created
    assert find_fleet_past(store, FIGURE, "id7", "large") == large

    both = find_fleet_past(store, FIGURE)
    assert sorted(class_of(entry.conditions.facts) for entry in both.entries) == ["large"] * 8 + ["small"] * 4
    assert both.drawn == {"large": 9} and both.there == 10
    small = find_fleet_past(store, FIGURE, machine_class="small")
    assert {entry.worker for entry in small.entries} == {"builder-9"} and not small.drawn and small.there == 0
    assert not find_fleet_past(store, Figure("other", "bare")).entries


def test_some_machines_of_each_class_with_as_many_sessions_each(tmp_path: Path) -> None:
    check(new_store(tmp_path / "kit.db"))


@pytest.mark.machine
@pytest.mark.unmeasured
def test_some_machines_of_each_class_by_a_server(database: str, tmp_path: Path) -> None:
    check(open_store(database, tmp_path / "kit.db"))
