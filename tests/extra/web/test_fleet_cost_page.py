"""The page of a fleet says what the command line says, and is found from where one looks for it."""

from __future__ import annotations

import html
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.extra.fleet.renderers import FLEET
from kit.extra.fleet.stored import FleetQuestion, answer_fleet
from kit.extra.web.app import make_app
from kit.report.renderer import find
from kit.store import Store
from tests.nights import night, on
from tests.stores import new_store

if TYPE_CHECKING:
    from flask.testing import FlaskClient


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight machines of two classes, one of them far off, and one whose kit is older."""
    path = tmp_path_factory.mktemp("fleet") / "kit.db"
    store = new_store(path)
    for machine in range(8):
        store.add(on(machine, 1, 0.5 if machine == 3 else 0.05 + 0.001 * machine))
        if machine > 5:
            made = on(machine, 2, 0.1)
            store.add(replace(made, facts={**made.facts, "class": "small"}))
    store.add(replace(on(9, 1, 0.5), kit_version="0"))
    store.close()
    return path


@pytest.fixture
def store(fleet: Path, tmp_path: Path) -> Store:
    shutil.copy(fleet, tmp_path)
    return new_store(tmp_path / "kit.db")


@pytest.fixture
def client(store: Store) -> FlaskClient:
    client = make_app(store, "t").test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = "Bearer t"
    return client


def words(text: str) -> str:
    """Of a page or a terminal, in one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).replace("\u00a0", " ").split())


@pytest.mark.parametrize("chosen", ["", "class=large&", "metric=user&phase=clean&", "since=2023-11-16&"])
def test_it_says_what_the_command_line_says(store: Store, client: FlaskClient, chosen: str) -> None:
    asked = {
        "": FleetQuestion("mine"),
        "class=large&": FleetQuestion("mine", "large"),
        "metric=user&phase=clean&": FleetQuestion("mine", phase="clean", metric="user"),
        "since=2023-11-16&": FleetQuestion("mine", since=1.7001e9),
    }[chosen]
    answer = client.get(f"/machines?{chosen}scenario=mine")
    page, (head, *parts) = words(answer.text), find(FLEET, "table").render(answer_fleet(store, asked)).split("\n\n")
    assert answer.status_code == 200 and words(head) in page
    if not chosen.startswith("since"):  # two machines make no table
        table = [re.split(r"\s{2,}", line.strip()) for line in parts.pop(0).splitlines()]
        cells = [cell for line in table for cell in line if not cell.startswith("--")]
        assert len(cells) > 6 and all(words(cell) in page for cell in cells)
    for line in (line for part in parts for line in part.splitlines()):
        assert words(line) in page, line


def test_each_machine_leads_to_its_session_and_from_there_back(client: FlaskClient) -> None:
    page = client.get("/machines").text
    assert "outlier: builder-3" in page and "left out: 1 machine, kit: 1 → 0: builder-9" in words(page)
    links = re.findall('href="(/session/[^"]*)"', page)
    assert len(links) == 8 and "/session/m6-002" in links and "/session/m6-001" not in links
    session = client.get(links[0]).text
    assert "This is builder-0 alone." in words(session) and 'href="/machines?scenario=mine"' in session
    assert 'href="/machines?scenario=mine"' in client.get("/?scenario=mine").text


def test_machines_are_chosen_by_what_their_fleet_calls_them(client: FlaskClient) -> None:
    assert '<option value="id3">builder-3</option>' in client.get("/history").text
    page = client.get("/?machine=id3").text
    assert '<option value="id3" selected>builder-3</option>' in page
    assert re.findall("<td>(builder-[0-9])</td>", page) == ["builder-3"]


def test_of_a_machine_that_is_no_fleets_nothing_is_said_of_others(store: Store, client: FlaskClient) -> None:
    store.add(night(1, 0.05))
    assert "/machines" not in client.get("/session/2026-0001").text


def test_what_can_not_be_answered_is_said(client: FlaskClient) -> None:
    for query, said in (
        ("class=tiny", "no session of 'mine' matches"),
        ("since=yesterday", "since yesterday: not a day"),
        ("scenario=nothing", "no finished session of 'nothing'"),
    ):
        answer = client.get(f"/machines?{query}")
        assert answer.status_code == 404 and said in words(answer.text)
