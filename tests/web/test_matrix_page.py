"""The page of the matrix says what ``kit matrix`` says."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.report.renderer import MATRIX, find
from kit.store import Store
from kit.store.matrix import MatrixQuestion, find_matrix
from kit.web.app import make_app
from tests.matrices import suite
from tests.stores import new_store

if TYPE_CHECKING:
    from flask.testing import FlaskClient


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
    priced = client.get("/matrix?price=0.34/h&builds=400/day").text
    assert "more per year" in priced and "0.34 per hour, 400 builds a day" in words(priced)


def test_what_can_not_be_answered_is_said(client: FlaskClient) -> None:
    for query, said in (
        ("weight=git", "weight git: not KEY=VALUE"),
        ("price=1", "price and builds need each other"),
        ("class=tiny", "no classes begin so"),
    ):
        answer = client.get(f"/matrix?{query}")
        assert answer.status_code == 404 and said in words(answer.text)
