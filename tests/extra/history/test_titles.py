"""A task has one name: its title, in each report of a night, in a message, in a check of the file and in a history."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kit.analysis.session.threshold import parse_threshold
from kit.extra.history.analysis.night import Night, Part, Task
from kit.extra.history.analysis.regression import Rule
from kit.extra.history.analysis.state_change import find_state_changes
from kit.extra.history.nightly.run import assess
from kit.extra.history.renderers import NIGHT
from kit.model.session import Request, Session
from kit.report.renderer import renderers
from kit.store import Store
from tests.command_line import in_fork as kit
from tests.nights import night
from tests.stores import new_store

REQUEST = Request(command=("make", "-j2"), title="project", arms=("bare", "layer:overlay2"))
TASK = Task(REQUEST, (parse_threshold("layer:overlay2 < 10 %"),))
FILE = """\
[[tasks]]
command = ["make", "-j2"]
title = "project"
arms = ["bare", "layer:overlay2"]
control = false
"""


def measured() -> Session:
    return replace(night(1, 0.3), title="project", request=REQUEST)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path / "kit.db")


@pytest.mark.parametrize("form", [item.name for item in renderers(NIGHT)])
def test_every_report_of_a_night_calls_a_task_by_its_title(form: str, store: Store) -> None:
    store.add(measured())
    unrun = Part(TASK, error="no image")
    found = Night("nightly", 1e9, (assess(TASK, measured(), store, Rule()), unrun))
    (renderer,) = (item for item in renderers(NIGHT) if item.name == form)
    text = renderer.render(found)
    assert "project" in text
    if form == "junit":
        assert [suite.get("name") for suite in ElementTree.fromstring(text)] == ["project", "project"]
    if form in ("terminal", "summary", "junit"):
        assert "make -j2" not in text


def test_a_message_calls_a_task_by_its_title(store: Store) -> None:
    store.add(measured())
    changes = find_state_changes(None, assess(TASK, measured(), store, Rule()))
    assert {change.task for change in changes} == {"project"}


def test_a_check_names_the_title_and_the_command(tmp_path: Path) -> None:
    (tmp_path / "night.toml").write_text(FILE)
    said = kit("nightly", str(tmp_path / "night.toml"), "--check").stdout
    assert said.startswith("task 1: project: bare, layer:overlay2; at least") and "\n  make -j2\n" in said


@pytest.mark.parametrize(("rounds", "begins"), [("1", "1 round has no"), ("2", "2 rounds seldom"), ("3", "")])
def test_a_check_warns_of_rounds_that_are_too_few_for_a_limit(rounds: str, begins: str, tmp_path: Path) -> None:
    limit = f'rounds = {rounds}\nthresholds = ["layer:overlay2 < 10 %"]\n'
    (tmp_path / "night.toml").write_text(FILE + limit)
    lines = kit("nightly", str(tmp_path / "night.toml"), "--check").stdout.splitlines()
    warned = [line for line in lines if line.endswith("fail: use 5 rounds or more")]
    assert len(warned) == bool(begins) and all(line.startswith(f"  {begins}") for line in warned)


def test_a_task_without_a_title_has_that_of_its_sessions() -> None:
    long = Task(Request(command=("make", *(f"target-{number}" for number in range(9)))))
    assert long.name.endswith(" …") and len(long.name) <= 40
    assert Task(Request(scenario="kernel:short")).name == "kernel:short"


@pytest.mark.parametrize("name", ["project", "make -j2"])
def test_a_history_is_found_by_the_title_and_by_the_command(name: str, store: Store, tmp_path: Path) -> None:
    store.add(measured())
    done = kit("history", name, "layer:overlay2", "--store", f"sqlite:///{tmp_path}/kit.db")
    assert done.returncode == 0 and done.stdout.startswith("project: layer:overlay2 / bare"), done.stderr
