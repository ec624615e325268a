"""Flame graphs, used by mouse and by keyboard in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

from kit.analysis.session.analyse import analyse
from kit.report.page.html import render_html
from kit.report.page.page import view
from tests.profiled import profiled_session

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]


@pytest.fixture
def figure(page: Page, tmp_path: Path) -> Locator:
    """That of the arm, coloured."""
    session = profiled_session()
    path = tmp_path / "report.html"
    path.write_text(render_html("Flames", [view(session, analyse(session))]), encoding="utf-8")
    page.goto(path.as_uri())
    assert page.locator("figure.flames").count() == 2
    return page.locator("figure.flames").nth(1)


def frame(figure: Locator, name: str) -> Locator:
    return figure.locator(f'g.frame[data-name="{name}"]')


def width(frame: Locator) -> float:
    return float(frame.locator("rect").get_attribute("width") or 0)


def test_zoom_and_search_by_keyboard(page: Page, figure: Locator) -> None:
    whole = frame(figure, "all")
    assert figure.locator("g.frame[tabindex='0']").count() == 1  # one stop of Tab's
    whole.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):  # workload, cc1, the widest of what it calls
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.dataset.name") == "[cc1]"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.name") == "entry_SYSCALL_64_after_hwframe"
    assert "entry_SYSCALL_64_after_hwframe: " in figure.locator("output.said").inner_text()
    before = width(frame(figure, "do_open"))
    page.keyboard.press("Enter")
    assert (
        width(frame(figure, "entry_SYSCALL_64_after_hwframe")) > 1000 and width(frame(figure, "do_open")) > 2 * before
    )
    assert frame(figure, "[cc1]").is_hidden() and frame(figure, "cc1").is_visible()
    page.keyboard.press("Escape")
    assert width(frame(figure, "do_open")) == pytest.approx(before, abs=0.1) and frame(figure, "[cc1]").is_visible()
    page.keyboard.press("/")
    page.keyboard.type("OVL_")
    assert figure.locator("output.found").inner_text().startswith("3 frames, ")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.name") == "ovl_open"
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    assert figure.locator("g.hit").count() == 0 and figure.locator("output.found").inner_text() == ""


def test_zoom_by_mouse_and_colours(page: Page, figure: Locator) -> None:
    frame(figure, "path_openat").locator("rect").click()
    assert width(frame(figure, "path_openat")) > 1000
    figure.get_by_role("button", name="Whole graph").click()
    assert frame(figure, "[cc1]").is_visible()
    filled = "node => getComputedStyle(node).fill"
    box = frame(figure, "ovl_open").locator("rect")
    red = box.evaluate(filled)
    figure.get_by_role("button", name="Colour by").click()
    assert box.evaluate(filled) != red
    page.locator("#theme").click()
    assert page.locator("b").count() == 0  # a function's name is no markup


def test_labels_can_be_read_in_light_and_dark(page: Page, figure: Locator) -> None:
    """Contrast of 4.5 to 1, WCAG 2.2's AA, of every frame's name on its colour."""
    contrast = """node => {
      const light = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
        .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
      const [a, b] = ["rect", "text"].map((name) => light(getComputedStyle(node.querySelector(name)).fill));
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    }"""
    for _ in ("light", "dark"):
        for graph in page.locator("figure.flames").all():
            found = [node.evaluate(contrast) for node in graph.locator("g.frame").all()]
            assert min(found) > 4.5, found
        page.locator("#theme").click()
