"""A real browser, for pages."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For a module, since its loop of events runs in this thread meanwhile, where a fleet's could not."""
    from playwright.sync_api import expect, sync_playwright

    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs chromium: make system installs it")
    expect.set_options(timeout=30_000)  # as long as a page may take to load beside a busy machine's tests
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that must not complain, nor ask the network for anything."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    yield page
    context.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "http://127.0.0.1"))] == []


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
