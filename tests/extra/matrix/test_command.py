"""``kit matrix`` over a store."""

from pathlib import Path

import pytest

from tests.command_line import Kit
from tests.matrices import suite
from tests.stores import new_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    store = new_store(tmp_path / "kit.db")
    store.add_new(suite())
    store.close()
    return f"sqlite:///{tmp_path}/kit.db"


def test_it_answers_over_the_store(kit: Kit, url: str, tmp_path: Path) -> None:
    done = kit("matrix", "--store", url)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Use layer:overlay2: ") and max(map(len, done.stdout.splitlines())) <= 100
    page = tmp_path / "matrix.html"
    words = ("--weight", "git=8", "--format", "html", "-o", page)
    assert kit("matrix", "--store", url, *words).returncode == 0
    assert "Use layer:btrfs" in page.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--weight", "git"), "--weight git: not NAME=N"),
        (("--margin", "3"), "--margin 3: not a percentage"),
        (("--scenario", "maven"), "no finished session of 'maven'"),
        (("--metric", "speed"), "--metric"),
    ],
)
def test_what_is_wrong_is_said(kit: Kit, url: str, words: tuple[str, ...], said: str) -> None:
    done = kit("matrix", "--store", url, *words)
    assert done.returncode == 2 and said in done.stderr
