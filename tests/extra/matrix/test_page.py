"""The page of the matrix says what ``kit matrix`` says."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.extra.matrix.renderers import MATRIX
from kit.extra.matrix.stored import MatrixQuestion, find_matrix
from kit.extra.web.app import make_app
from kit.report.renderer import find
from kit.store import Store
from tests.browser import luminance
from tests.matrices import suite
from tests.stores import new_store

if TYPE_CHECKING:
    from flask.testing import FlaskClient
    from playwright.sync_api import Page


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = new_store(tmp_path / "kit.db")
    found.add_new(suite())
    return found


@pytest.fixture
def client(store: Store) -> FlaskClient:
    client = make_app(store, "t").test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = "Bearer t"
    return client


def words(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).replace("\u00a0", " ").split())


def test_it_says_what_the_command_says(store: Store, client: FlaskClient) -> None:
    assert 'href="/matrix"' in client.get("/").text
    page = client.get("/matrix?weight=git%3D8").text
    head, _, _ = (
        find(MATRIX, "table").render(find_matrix(store, MatrixQuestion(weights={"git": 8.0}))).partition("\n\n")
    )
    assert words(head) in words(page) and "Use layer:btrfs" in page
    assert set(re.findall(r'href="/session/([^"]*)"', page)) == {"kernel-short-001", "git-short-001", "fsync-short-001"}


def test_what_can_not_be_answered_is_said(client: FlaskClient) -> None:
    for query, said in (
        ("weight=git", "weight git: not NAME=N"),
        ("class=tiny", "no classes begin so"),
    ):
        answer = client.get(f"/matrix?{query}")
        assert answer.status_code == 404 and said in words(answer.text)


#: Of a cell: text and background, that of the page where the cell has none, or hatches.
_COLOURS = """cell => {
  const own = getComputedStyle(cell).backgroundColor, page = getComputedStyle(document.body).backgroundColor;
  return [getComputedStyle(cell).color, own === "rgba(0, 0, 0, 0)" ? page : own];
}"""


@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_cell_has_contrast_and_each_verdict_a_look_of_its_own(
    page: Page, store: Store, tmp_path: Path, scheme: Any
) -> None:
    path = tmp_path / "matrix.html"
    path.write_text(find(MATRIX, "html").render(find_matrix(store, MatrixQuestion())), encoding="utf-8")
    page.emulate_media(color_scheme=scheme)
    page.goto(path.as_uri())
    cells = page.locator("td.cell")
    looks: dict[str, str] = {}
    for i in range(cells.count()):
        ink, paper = cells.nth(i).evaluate(_COLOURS)
        low, high = sorted((luminance(ink), luminance(paper)))
        kind = str(cells.nth(i).get_attribute("class")).removeprefix("cell ")
        assert (high + 0.05) / (low + 0.05) >= 4.5, kind
        looks[kind] = paper
    assert {"slower2", "slower3", "faster2", "equivalent", "not-run"} <= looks.keys()
    assert len({looks[kind] for kind in ("slower2", "slower3", "faster2", "equivalent", "not-run")}) == 5
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
