"""What leaves the kit, whatever a workload, an import or a name holds: no markup, no control sequences, no secrets."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page

from kit.analysis import analyse
from kit.change import track
from kit.report.html import render_html
from kit.report.page import SessionView, view
from tests.conftest import Kit
from tests.hostile import CONTROL, MARKUP, PATH, spoiled
from tests.nights import entry, ladder_session, night
from tests.test_pages import browser, page

__all__ = ["browser", "page"]
_DRAWN = {"svg", "title", "desc", "style", "rect", "g", "line", "text", "circle", "path"}


def views(bad: str) -> list[SessionView]:
    """Hostile sessions as pages show them, with all plots: with a ladder, with hostile arms, with a history."""
    ladder, arms = (spoiled(ladder_session(), bad, arms_too) for arms_too in (False, True))
    nights = [spoiled(night(i, 0.05), bad, arms_too=True) for i in range(3)]
    phase = f"build{bad}"
    past = track([entry(item, phase) for item in nights], nights[-1].id)
    return [view(item, analyse(item)) for item in (ladder, arms)] + [view(nights[-1], analyse(nights[-1]), [past])]


class _Active(HTMLParser):
    """Collects what a browser might run, and every tag."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.found += [f"{tag} {name}={value}" for name, value in attrs if name.startswith("on") or name == "style"]
        self.found += [f"{tag} {value}" for name, value in attrs if "javascript:" in (value or "").lower()]
        if tag == "script" and ("type", "application/json") not in attrs:
            self.found.append(tag)


@pytest.mark.parametrize("bad", [MARKUP, CONTROL, PATH], ids=["markup", "control", "path"])
def test_no_text_of_a_session_is_active_in_a_page(bad: str) -> None:
    page = render_html(f"title{bad}", views(bad), [f"head{bad}"])
    parser = _Active()
    parser.feed(page)
    assert parser.found == ["script"]  # the page's own
    assert not parser.tags & {"img", "iframe", "object", "embed", "base", "b"}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]", page)


@pytest.mark.parametrize("bad", [MARKUP, CONTROL, PATH], ids=["markup", "control", "path"])
def test_no_text_of_a_session_is_active_in_a_plot(bad: str) -> None:
    pictures = [picture for item in views(bad) for picture in item.pictures]
    assert len(pictures) == 3 + 2 + 3  # hostile arms have no ladder
    for picture in pictures:
        for text in (picture.file(), picture.inline()):
            for element in ElementTree.fromstring(text).iter():
                assert element.tag.rpartition("}")[2] in _DRAWN
                assert not [name for name in element.attrib if name.startswith("on") or "href" in name]


def test_a_browser_runs_nothing_of_a_session(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(render_html(f"title{MARKUP}", views(MARKUP), [MARKUP]), encoding="utf-8")
    page.goto(path.as_uri())
    assert page.locator("svg[role=img]").count() == 8 and page.locator("img").count() == 0
    assert page.evaluate("window.pwned") is None
    page.get_by_role("button", name="Light or dark").click()  # its own script runs
    assert page.locator("html[data-theme]").count() == 1


def test_a_page_lets_no_script_run_but_its_own(browser: object, tmp_path: Path) -> None:
    """Were a text ever left unescaped, the policy would still stop it."""
    from playwright.sync_api import Browser

    assert isinstance(browser, Browser)
    path = tmp_path / "report.html"
    text = render_html("title", [], []).replace(
        "<main", "<script>window.pwned=1</script><img src=x onerror=pwned=1><main"
    )
    path.write_text(text, encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    page.get_by_role("button", name="Light or dark").click()
    assert page.locator("html[data-theme]").count() == 1
    assert page.evaluate("window.pwned") is None
    page.close()


@pytest.mark.parametrize("bad", ["../../x", "/abs/x", "a\0b", "x" * 5000, "..", "<svg/onload=x>"])
def test_plots_are_written_below_their_directory(kit: Kit, tmp_path: Path, bad: str) -> None:
    """Also where a store holds names that no session of today's could have."""
    from kit.cli.report import _write_plots

    out = tmp_path / "a" / "b" / "plots"
    session = replace(ladder_session(), id=bad)
    _write_plots([view(session, analyse(session))], out, ["svg"])
    every = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(every) == 3 and all(path.parent == out for path in every)


def test_plots_of_two_sessions_never_share_a_file() -> None:
    names = [
        picture.identifier
        for name in ("a/b", "a-b", "a b", "x" * 300 + "1", "x" * 300 + "2")
        for picture in view(replace(ladder_session(), id=name), analyse(ladder_session())).pictures
    ]
    assert len(set(names)) == len(names) == 15
