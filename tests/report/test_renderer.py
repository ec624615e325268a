"""The table of renderers: what fronts offer follows from it, and a file and a line in it make a renderer."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from kit.extensions import EXTRAS
from kit.report.page import filters
from kit.report.renderer import (
    BETWEEN,
    FLEET,
    PAGE,
    RENDERERS,
    SESSION,
    SESSIONS,
    Renderer,
    find,
    offered,
    renderers,
)
from kit.store import open_store
from tests.changed_kit import ChangedKit
from tests.nights import ladder_session

#: With how many values a renderer of each kind is called; those of an extra's own subject with one, if it isn't here.
GIVEN = {SESSION: 2, SESSIONS: 1, PAGE: 2, BETWEEN: 3, FLEET: 1, "history": 2}
ADDED: list[Renderer] = [item for extra in EXTRAS for name in extra.renderers.values() for item in extra.load(name)]


def test_each_filter_is_some_templates() -> None:
    """And each that a template names exists, or no page would be made."""
    folder = Path(filters.__file__).parents[2]
    text = "".join(path.read_text() for path in folder.rglob("*.j2"))
    used = {*re.findall(r"\|\s*(\w+)", text), *re.findall(r'map\("(\w+)"', text)}
    assert set(filters.FILTERS) <= used


@pytest.mark.parametrize("item", [*RENDERERS, *ADDED], ids=lambda item: f"{item.of}-{item.name}")
def test_each_is_called_with_what_its_kind_says(item: Renderer) -> None:
    module, _, function = item.maker.partition(":")
    module = module if item in ADDED else f"kit.report.{module}"
    signature = inspect.signature(getattr(importlib.import_module(module), function))
    signature.bind(*range(GIVEN.get(item.of, 1)))
    assert signature.return_annotation == "str" and find(item.of, item.name) is item


def test_files_have_different_labels() -> None:
    for of in {item.of for item in (*RENDERERS, *ADDED)}:
        names = [item.file for item in renderers(of) if item.suffix]
        assert len(set(names)) == len(names)
    assert len({item.suffix for item in offered()}) == len(offered())


HAIKU = '''"""A session in three lines."""

from kit.analysis.session.analyse import Analysis
from kit.model.session import Session


def render_haiku(session: Session, analysis: Analysis) -> str:
    return f"{len(session.samples)} runs\\n{len(analysis.comparisons)} comparisons\\nthe fans fall silent\\n"
'''
LINE = '    Renderer("haiku", SESSION, "haiku:render_haiku", "three lines", "txt", "text/plain"),'
SERVE = """
import sys
from pathlib import Path
from kit.store import open_store
from kit.extra.web.app import make_app

client = make_app(open_store(sys.argv[1], Path(), True), "token").test_client()
answer = client.get(f"/session/{sys.argv[2]}.txt", headers={"Host": "localhost", "Authorization": "Bearer token"})
assert answer.content_type == "text/plain; charset=utf-8"
print(answer.text)
"""


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_renderer_is_a_file_and_a_line_in_the_table(tmp_path: Path) -> None:
    """``kit show`` and ``kit import`` offer it, and a browser can have it."""
    url, session = f"sqlite:///{tmp_path}/kit.db", ladder_session()
    store = open_store(url, tmp_path)
    store.add(session)
    store.close()
    other = ChangedKit(tmp_path / "copy")
    other.add_file("kit/report/haiku.py", HAIKU)
    other.insert("kit/report/renderer.py", 'Renderer("markdown", SESSION', LINE)
    shown = other.command("show", "last", "--format", "haiku", "--store", url)
    assert shown.startswith("31 runs\n") and shown.endswith("the fans fall silent\n")
    pytest.importorskip("flask")
    assert other.python(SERVE, url, session.id).strip() == shown.strip()
    figures = tmp_path / "bare.txt"
    figures.write_text("real 10.0\nuser 8.0\nsys 1.0\n")
    other.command("import", str(figures), "--haiku", str(tmp_path / "out.txt"), "--store", url)
    assert (tmp_path / "out.txt").read_text() == "1 runs\n0 comparisons\nthe fans fall silent\n"
    assert "Also write three lines" in other.command("compare", "--help-all")
    assert other.touched == {"kit/report/haiku.py", "kit/report/renderer.py"}
