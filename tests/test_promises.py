"""The page of promises has those of the tests, and no page names a test that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.generated import generate
from tests.promises import ROOT, Promise, promises_table, read_promises

PAGE = ROOT / "tests/PROMISES.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "tests/README.md", PAGE])
needs_pages = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the kit is tested without its documents")


@needs_pages
def test_the_page_has_what_tests_promise() -> None:
    assert generate().with_promises() == PAGE.read_text(encoding="utf-8"), "run: python docs/generate.py"


@needs_pages
def test_each_topic_has_its_table() -> None:
    tables = re.findall(r"^<!-- promises: (.+) -->$", PAGE.read_text(encoding="utf-8"), re.M)
    assert sorted(tables) == sorted({promise.topic for promise in read_promises()})


def test_a_promise_is_one_sentence() -> None:
    for promise in read_promises():
        assert re.fullmatch(r"[A-Z`][^|\n]*\.", promise.sentence), promise


@needs_pages
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_test_that_a_page_names_exists(page: Path) -> None:
    for path, test in re.findall(r"(?<![\w/.-])(tests/[\w/]+\.\w+)(?:::(\w+))?", page.read_text(encoding="utf-8")):
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in text, f"{path}::{test}"


PROMISED = '''
@pytest.mark.promise("guest", "A guest does nothing.")
@pytest.mark.promise("guest", "A guest " "writes nothing.")
def test_one() -> None: ...

class Suite:
    @pytest.mark.machine
    @pytest.mark.promise("guest", "A guest does nothing.")
    def test_two(self) -> None: ...
'''  # fmt: skip


def test_promises_are_read_from_the_source_of_tests(tmp_path: Path) -> None:
    (tmp_path / "tests/a").mkdir(parents=True)
    path = tmp_path / "tests/a/test_it.py"
    path.write_text(PROMISED)
    first, second, third = read_promises(tmp_path)
    assert first == Promise("guest", "A guest does nothing.", "tests/a/test_it.py", "test_one")
    assert (second.sentence, third.test) == ("A guest writes nothing.", "test_two")
    assert promises_table([first, second, third], "guest").splitlines()[2:] == [
        "| A guest does nothing. | `tests/a/test_it.py::test_one`, `tests/a/test_it.py::test_two` |",
        "| A guest writes nothing. | `tests/a/test_it.py::test_one` |",
    ]
    for change in (
        ("def test_one", "def one"),
        ('"A guest " "writes', 'SUBJECT + "writes'),
        ('"guest", "A guest does', '"A does'),
    ):
        path.write_text(PROMISED.replace(*change))
        with pytest.raises(ValueError):
            read_promises(tmp_path)
