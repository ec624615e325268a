"""``kit fleet show`` over a store, and what history and a night say of a fleet's change."""

import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from kit.cli import fleet_compare
from kit.extra.history import fleet_history
from kit.extra.history.analysis.night import Night, Task
from kit.extra.history.analysis.regression import Rule
from kit.extra.history.nightly.run import assess
from kit.extra.history.report.night import render_summary
from kit.fleet.client import run
from kit.model.session import INTERRUPTED, Request, Session
from kit.store import open_store
from tests.command_line import Kit
from tests.nights import on

if TYPE_CHECKING:
    from kit.fleet.client.run import FleetContext


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five machines with a session each, and one whose kit is older."""
    path = tmp_path_factory.mktemp("fleet") / "fleet.db"
    store = open_store("", path)
    for machine in range(5):
        store.add(on(machine, 1, 0.05 + 0.01 * machine))
    store.add(replace(on(7, 1, 0.5), kit_version="0"))
    store.close()
    return path


@pytest.fixture
def url(fleet: Path, tmp_path: Path) -> str:
    shutil.copy(fleet, tmp_path)
    return f"sqlite:///{tmp_path}/fleet.db"


def test_show_says_what_machines_say_together(kit: Kit, url: str) -> None:
    done = kit("fleet", "show", "--store", url)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("mine on 5 machines: slower: layer:overlay2 (+") and max(map(len, lines)) <= 100
    assert "left out: 1 machine, kit: 1 → 0: builder-7 (session m7-001)" in lines
    rows = json.loads(kit("fleet", "show", "mine", "--store", url, "--format", "json").stdout)["arms"]
    assert len(rows[0]["whole"]["machines"]) == 5


def test_machines_are_listed_and_found_by_what_their_fleet_calls_them(kit: Kit, url: str) -> None:
    lines = kit("sessions", "--store", url).stdout.splitlines()[2:]
    assert sorted(line.split()[-1] for line in lines) == [f"builder-{machine}" for machine in (0, 1, 2, 3, 4, 7)]
    assert kit("sessions", "--store", url, "--machine", "builder-3").stdout.splitlines()[2:] == [
        line for line in lines if line.endswith("builder-3")
    ]
    done = kit("history", "mine", "layer:overlay2", "--store", url, "--machine", "builder-7", "--format", "json")
    assert done.stdout.count("m7-001") and "m3-001" not in done.stdout


def test_what_is_not_there_is_said(kit: Kit, url: str) -> None:
    for words, said in (
        (("nothing",), "no finished session of 'nothing'"),
        (("mine", "--class", "small"), "use a class of: large"),
        (("mine", "--since", "2033-01-01"), "no session of 'mine' matches"),
    ):
        done = kit("fleet", "show", *words, "--store", url)
        assert done.returncode == 2 and said in done.stderr


def test_history_and_a_night_say_whose_a_change_is(kit: Kit, tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'fleet.db'}", tmp_path)
    for machine in range(3):
        for number in range(10):
            store.add(on(machine, number, 0.25 if machine == 0 and number > 5 else 0.05))
    said = kit("history", "mine", "layer:overlay2", "--store", f"sqlite:///{tmp_path / 'fleet.db'}").stdout
    first, rest = " ".join(said.split()).split(" the newest series, builder-2: ")
    assert first.startswith("mine: layer:overlay2: builder-0, of 3 machines of large, rose by +")
    assert "specific to that machine" in first and rest.startswith(
        "mine: layer:overlay2 / bare, real of total: 10 sessions"
    )
    part = assess(Task(Request(scenario="mine")), store.get("m0-009"), store, Rule())
    assert "builder-0, of 3 machines of large, rose by +" in render_summary(Night("night", 0.0, (part,)))
    assert assess(Task(Request(scenario="mine")), store.get("m1-009"), store, Rule()).common == ()


def test_a_night_after_a_new_kernel_says_what_came_with_it_on_all_machines(kit: Kit, tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'fleet.db'}", tmp_path)
    for machine in range(3):
        for number in range(12):
            made = on(machine, number, 0.25 if number > 6 else 0.05)
            store.add(replace(made, facts={**made.facts, "kernel": "6.8" if number > 6 else "6.1"}))
    part = assess(Task(Request(scenario="mine")), store.get("m1-011"), store, Rule())
    said = " ".join(render_summary(Night("night", 0.0, (part,))).split())
    assert "3 of 3 machines of large (builder-0, builder-1, builder-2) rose by +" in said
    assert "common to several machines: it came with kernel: 6.1 → 6.8" in said


def test_of_a_large_fleet_some_machines_are_drawn_and_that_is_said(
    kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its newest thousand sessions are of a thousand machines, one of each."""
    monkeypatch.setattr(fleet_history, "_MACHINES", 5)
    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    store = open_store(url, tmp_path)
    for machine in range(8):
        for number in range(12):
            store.add(on(machine, number, 0.25 if number > 6 else 0.05))
    part = assess(Task(Request(scenario="mine")), store.get("m7-011"), store, Rule())
    said = " ".join(render_summary(Night("night", 0.0, (part,))).split())
    assert "5 of 5 machines of large (a sample of 8: builder-" in said
    said = " ".join(kit("history", "mine", "layer:overlay2", "--last", "8", "--store", url).stdout.split())
    assert said.startswith("mine: layer:overlay2: 5 of 5 machines of large (a sample of 8: builder-")


def test_of_machines_none_of_which_changed_that_is_said_first(kit: Kit, url: str, tmp_path: Path) -> None:
    """And of those that have too few sessions to tell one, that."""
    said = kit("history", "mine", "layer:overlay2", "--store", url).stdout
    assert said.startswith(
        "mine: layer:overlay2: no machine has enough sessions to find a change\n\nthe newest series, "
    )
    store = open_store(url, tmp_path)
    for machine in (1, 2):
        for number in range(2, 8):
            store.add(on(machine, number, 0.05))
    said = kit("history", "mine", "layer:overlay2", "--store", url).stdout
    assert said.startswith("mine: layer:overlay2: no significant change on any of 2 machines\n\nthe newest series, ")


def test_old_sessions_of_a_class_are_found_behind_many_of_others(kit: Kit, url: str, tmp_path: Path) -> None:
    store = open_store(url, tmp_path)
    for number in (2, 3):
        made = on(8, number, 0.3)
        store.add(replace(made, facts={**made.facts, "class": "small"}))
    said = kit("fleet", "show", "mine", "--class", "large", "--store", url).stdout
    assert said.startswith("mine on 5 machines: ")


@pytest.mark.parametrize("interrupted", [False, True])
def test_each_answers_with_sessions_that_are_done(
    interrupted: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = (*(on(i, 1, 0.05) for i in range(4)), *(replace(on(i, 1, 0.5), status=INTERRUPTED) for i in range(4, 9)))

    def run_each(request: Request, fleet: "FleetContext") -> tuple[Session, ...]:
        if interrupted:
            raise run.EachInterrupted(found)
        return found

    monkeypatch.setattr(run, "run_each", run_each)
    closed: list[bool] = []
    with pytest.raises(KeyboardInterrupt) if interrupted else nullcontext():
        fleet_compare.compare_each(Request(), cast("FleetContext", None), {}, lambda: closed.append(True))
    said = capsys.readouterr().out
    assert said.startswith("mine on 4 machines: slower: layer:overlay2") and closed
    left = (
        "left out: 5 machines, interrupted: builder-4 (session m4-001), builder-5 (session m5-001), "
        "builder-6 (session m6-001) and 2 more"
    )
    assert left in " ".join(said.split())


def test_each_says_so_where_no_session_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    fleet_compare._report_each([replace(on(1, 1, 0.5), status=INTERRUPTED)])
    said = capsys.readouterr().out
    assert said.startswith("mine: no machine has compared an arm")
    assert "left out: 1 machine, interrupted: builder-1 (session m1-001)" in said
