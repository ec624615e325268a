"""Reports and the served store, looked at by a real browser."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from waitress import wasyncore

from kit.analysis.session.analyse import analyse
from kit.analysis.session.threshold import parse_threshold
from kit.extra.history.analysis.changepoint import track
from kit.extra.history.analysis.regression import judge
from kit.extra.history.report.page import finding_row, track_views
from kit.extra.history.report.plot import plot_track
from kit.extra.web import server
from kit.extra.web.app import make_app
from kit.report.data.structured import render_csv
from kit.report.page.html import render_html
from kit.report.page.page import view
from kit.report.plot import plot_attribution, plot_intervals, plot_runs
from kit.report.plot.picture import to_png
from kit.store import Store, open_store
from tests.browser import luminance
from tests.command_line import Kit
from tests.nights import entry, ladder_session, night
from tests.stores import new_store
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session with everything in it, and one with a history that has a change point."""
    full = ladder_session()
    nights = [night(i, 0.05) for i in range(8)] + [night(i, 0.2) for i in range(8, 12)]
    analysis = analyse(nights[-1])
    past = track([entry(item) for item in nights], nights[-1].id)
    threshold = parse_threshold("layer:overlay2 < 10 %")
    (item,) = threshold.find(analysis.comparisons)
    finding = judge(threshold, item, past.series, past.changes)
    tracks = track_views([past], nights[-1].id, [threshold])
    views = [view(full, analyse(full)), view(nights[-1], analysis, tracks, [finding_row(finding)])]
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_html("A <title>", views, ["something <bad>"]), encoding="utf-8")
    return path


@pytest.mark.machine
@pytest.mark.unmeasured
def test_plots_render(page: Page, report: Path) -> None:
    page.goto(report.as_uri())
    assert page.title() == "A <title>"
    pictures = page.locator("svg[role=img]")
    assert pictures.count() == 3 + 3  # the second session has no ladder, but a history
    for i in range(pictures.count()):
        box = pictures.nth(i).bounding_box()
        assert box and box["width"] > 300 and box["height"] > 50
        assert pictures.nth(i).locator("desc").text_content()
    runs = page.locator("svg#x, svg").nth(2)
    assert runs.locator("circle.dot").count() == 29 and runs.locator("circle.flagged").count() == 1
    history = page.locator("svg", has=page.locator("line.change"))
    assert history.count() == 1 and history.locator("line.limit").count() == 1
    assert "▲" in (history.text_content() or "")


@pytest.mark.machine
@pytest.mark.unmeasured
def test_nothing_in_the_data_becomes_markup(page: Page, report: Path) -> None:
    page.goto(report.as_uri())
    assert page.locator("b").count() == 0
    text = page.locator("main").inner_text()
    assert (
        "mine & <yours>" in text and "no <room> left" in text and "</script><b>" in text and "something <bad>" in text
    )
    assert "this kernel has no aufs" in text and "regression" in text
    data = json.loads(page.locator("script[type='application/json']").first.text_content() or "")
    assert data["session"]["facts"]["note"] == "</script><b>"


def _column(page: Page, name: str) -> list[str]:
    table = page.locator("table.sortable").first
    heads = table.locator("th").all_inner_texts()
    index = [head.strip(" ▲▼") for head in heads].index(name)
    rows = table.locator("tbody tr:visible")
    return [rows.nth(i).locator("td").nth(index).inner_text() for i in range(rows.count())]


@pytest.mark.machine
@pytest.mark.unmeasured
def test_tables_sort_and_filter_by_keyboard(page: Page, report: Path) -> None:
    page.goto(report.as_uri())
    assert set(_column(page, "metric")) == {"real"}
    button = page.locator("table.sortable").first.get_by_role("button", name="ratio")
    button.focus()
    page.keyboard.press("Enter")
    ratios = [float(value) for value in _column(page, "ratio")]
    assert ratios == sorted(ratios) and len(set(ratios)) > 3
    page.keyboard.press("Enter")
    assert [float(value) for value in _column(page, "ratio")] == sorted(ratios, reverse=True)
    assert page.locator("th[aria-sort=descending]").count() == 1
    form = page.locator("form.filters").first
    form.get_by_label("arm").select_option("layer:vfs")
    assert set(_column(page, "arm")) == {"layer:vfs"}
    form.get_by_label("metric").select_option("")
    form.get_by_label("Search").fill("flush")
    assert set(_column(page, "metric")) == {"flush"}
    assert re.fullmatch(r"\d+ of \d+ rows", form.locator("output").inner_text())


@pytest.mark.machine
@pytest.mark.unmeasured
def test_the_data_can_be_saved(page: Page, report: Path) -> None:
    page.goto(report.as_uri())
    with page.expect_download() as download:
        page.get_by_role("button", name="Save all runs as CSV").first.click()
    session = ladder_session()
    assert download.value.suggested_filename == f"{session.id}.csv"
    kept = Path(str(download.value.path())).read_text()
    ours = render_csv(session, analyse(session))
    assert len(kept.splitlines()) == len(ours.splitlines()) == 62
    assert kept.splitlines()[0] == ours.splitlines()[0]
    with page.expect_download() as download:
        page.get_by_role("button", name="Save everything as JSON").first.click()
    assert json.loads(Path(str(download.value.path())).read_text())["session"]["id"] == session.id


def _colours(page: Page) -> tuple[str, str]:
    script = "() => { const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]; }"
    background, ink = page.evaluate(script)
    return str(background), str(ink)


@pytest.mark.machine
@pytest.mark.unmeasured
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_have_contrast(page: Page, report: Path, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(report.as_uri())
    first = _colours(page)
    assert (luminance(first[0]) < 0.5) == (scheme == "dark")
    quiet = page.locator(".quiet").first.evaluate("e => getComputedStyle(e).color")
    for ink in (first[1], quiet):
        low, high = sorted((luminance(first[0]), luminance(ink)))
        assert (high + 0.05) / (low + 0.05) >= 4.5
    page.get_by_role("button", name="Light or dark").click()
    assert _colours(page)[0] != first[0]


@pytest.mark.machine
@pytest.mark.unmeasured
def test_it_prints_without_controls_and_on_paper_white(page: Page, report: Path) -> None:
    page.emulate_media(color_scheme="dark", media="print")
    page.goto(report.as_uri())
    assert luminance(_colours(page)[0]) == pytest.approx(1.0)
    assert page.locator("form.filters:visible, header button:visible").count() == 0
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.machine
@pytest.mark.unmeasured
def test_the_first_screen_answers(page: Page, report: Path) -> None:
    """With headline, table and plot; sentences about each arm are folded, and printed all the same."""
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(report.as_uri())
    session = page.locator("article").first
    for part in ("p.answer", "table", "figure svg"):
        box = session.locator(part).first.bounding_box()
        assert box and box["y"] + box["height"] <= 900, part
    arms = session.locator("details", has_text="Arm by arm, in words")
    assert arms.count() == 1 and arms.locator("p").count() > 2 and not arms.locator("p").first.is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert arms.locator("p").first.is_visible()


@pytest.mark.machine
@pytest.mark.unmeasured
def test_it_is_read_without_script(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert "cost" in page.locator("p.answer").first.inner_text() or page.locator("svg").count()
    assert page.locator("table.sortable tbody tr").count() > 100
    context.close()


@pytest.mark.machine
@pytest.mark.unmeasured
def test_narrow_screens_scroll_no_page_sideways(page: Page, report: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_every_picture_is_a_file_of_its_own(tmp_path: Path) -> None:
    analysis = analyse(ladder_session())
    ladders = [item for item in analysis.ladders if (item.phase, item.cost) == ("total", "real")]
    nights = [entry(night(i, 0.05)) for i in range(3)]
    pictures = [
        plot_intervals(analysis.comparisons, 0.03),
        plot_attribution(ladders),
        plot_runs(analysis.arms),
        plot_track(track(nights, nights[-1].session), 1.1),
    ]
    for picture in pictures:
        assert picture is not None
        png = to_png(picture.file())
        assert png.startswith(b"\x89PNG") and len(png) > 5000
    assert plot_intervals([], 0.03) is None and plot_attribution([]) is None and plot_runs([]) is None


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "kit.db"
    store = open_store("", path)
    for i in range(60):
        store.add(night(i, 0.05 if i < 50 else 0.2))
    store.add(ladder_session())
    store.close()
    return path


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Store:
    shutil.copy(made, tmp_path)
    return new_store(tmp_path / "kit.db")


@pytest.mark.machine
@pytest.mark.unmeasured
def test_the_served_store(page: Page, store: Store, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kit", "serve", "--port", "0", "--store", f"sqlite:///{tmp_path}/kit.db"]
    served = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert served.stdout
        url = served.stdout.readline().split()[0]
        root, _, token = url.partition("?token=")
        assert len(token) > 30
        page.goto(url)
        below = page.url
        assert re.fullmatch(f"{root}[\\w-]{{16}}/", below)
        page.get_by_role("button", name="Light or dark").click()
        expect(page.locator("html[data-theme]")).to_have_count(1)  # the policy lets the page's own script run
        # A click returns before the next page is there, so each look at a page waits for what it expects.
        expect(page.locator("main")).to_contain_text("61 sessions, page 1 of 2")
        page.get_by_role("link", name="Older").click()
        expect(page.locator("tbody tr")).to_have_count(11)
        page.locator("select[name=arm]").select_option("layer:vfs")
        page.get_by_role("button", name="Show").click()
        page.get_by_role("link", name="20260101-000000-full").click()
        expect(page.locator("svg[role=img]")).to_have_count(3)
        page.goto(f"{below}session/2026-0059")
        page.get_by_role("link", name="layer:overlay2", exact=True).click()
        expect(page.locator("line.change")).to_have_count(1)
        page.goto(f"{below}?scenario=mine")
        page.get_by_label("2026-0059 as B").check()
        page.get_by_label("2026-0049 as A").check()
        page.get_by_role("button", name="Compare A with B").click()
        expect(page.locator("main")).to_contain_text("larger in B")
        asked = urllib.request.Request(f"{root}session/2026-0059.csv", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked) as answer:
            assert answer.read().decode().startswith("session,guest,arm")
    finally:
        served.terminate()
        assert served.wait(60) in (0, 130)


def test_serving_is_for_this_machine_and_for_reading(store: Store, tmp_path: Path) -> None:
    before = (tmp_path / "kit.db").stat().st_mtime_ns
    client = make_app(open_store(f"sqlite:///{tmp_path}/kit.db", tmp_path, read_only=True), "secret").test_client()
    below = client.get("/?token=secret").headers["Location"]
    assert client.get(below).status_code == 200
    assert client.get(below, headers={"Host": "elsewhere.example"}).status_code == 403
    assert client.post(below).status_code == 405
    for path in ("session/nosuch", "session/nosuch.json", "nosuch", "compare?a=nosuch&b=2026-0001"):
        assert client.get(f"{below}{path}").status_code == 404, path
    assert client.get(f"{below}history?scenario=mine&arm=layer:overlay2").status_code == 200
    assert "unsafe" not in client.get(below).headers["Content-Security-Policy"]
    assert (tmp_path / "kit.db").stat().st_mtime_ns == before


@pytest.mark.promise("another user", "Other users see nothing of `kit serve`.")
def test_other_users_of_the_machine_see_nothing(store: Store) -> None:
    app = make_app(store, "right")
    for path in ("/", "/?token=wrong", "/?token=", "/?token=²", "/session/2026-0059.csv", "/nosuch"):
        answer = app.test_client().get(path)
        assert answer.status_code == 403 and "whole URL that kit serve has printed" in answer.text, path
        assert "2026" not in answer.text and "Set-Cookie" not in answer.headers
    for header in ("Bearer wrong", "Bearer", "Basic right", "\xff"):
        assert app.test_client().get("/", headers={"Authorization": header}).status_code == 403
    assert app.test_client().get("/", headers={"Authorization": "Bearer right"}).status_code == 200
    client = app.test_client()
    below = client.get("/session/2026-0059?token=right").headers["Location"]
    assert client.get(f"{below}session/2026-0059").status_code == 200
    rebound = app.test_client().get("/?token=right", headers={"Host": "elsewhere.example"})
    assert rebound.status_code == 403 and "Set-Cookie" not in rebound.headers


@pytest.mark.promise("another user", "Neither the cookie of `kit serve` nor its path alone opens a page.")
def test_a_server_at_another_port_gets_nothing_that_opens_the_store(store: Store) -> None:
    """Browsers send a cookie to all ports of an address: to those of other users, too."""
    app = make_app(store, "right")
    browser = app.test_client()
    answer = browser.get("/?token=right", base_url="http://127.0.0.1:8910")
    below = answer.headers["Location"]
    cookie, *options = answer.headers["Set-Cookie"].split("; ")
    name, _, value = cookie.partition("=")
    assert name == "kit-8910" and value != "right" and len(below) > 16
    assert set(options) == {"HttpOnly", "SameSite=Strict", f"Path={below}"}
    # What a page at any other path, or somebody who has the cookie alone, or the path alone, is given:
    stranger, here = app.test_client(use_cookies=False), "http://127.0.0.1:8910"
    assert stranger.get(below, base_url=here, headers={"Cookie": cookie}).status_code == 200
    assert stranger.get("/", base_url=here, headers={"Cookie": cookie}).status_code == 403
    assert stranger.get(f"{below}session/2026-0059", base_url=here).status_code == 403
    for stolen in (value, below.strip("/")):
        assert stranger.get("/", headers={"Authorization": f"Bearer {stolen}"}).status_code == 403
        assert stranger.get(f"/?token={stolen}").status_code == 403


def test_links_stay_below_the_path(store: Store) -> None:
    app = make_app(store, "t")
    client = app.test_client()
    below = client.get("/?token=t").headers["Location"]
    asked = ("", "session/2026-0059", "compare", "compare?a=2026-0049&b=2026-0059", "history", "fleet?scenario=mine")
    for path in (*asked, "nosuch"):
        found = re.findall(r'(?:href|action)="(/[^"]*)"', client.get(f"{below}{path}").text)
        assert found and all(link.startswith(below) for link in found), path
    answer = client.get("/session/2026-0059", headers={"Authorization": "Bearer t"})
    assert answer.status_code == 200 and below not in answer.text and 'href="/history?' in answer.text


@pytest.mark.promise("another user", "`kit serve` closes silent connections and starts no thread for them.")
def test_silent_connections_take_no_threads_and_are_closed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SILENCE", 1)
    serving = server.make_server(make_app(store, "t"), 0)
    thread = threading.Thread(target=serving.run, daemon=True)
    thread.start()
    silent = []
    try:
        before = len(os.listdir("/proc/self/task"))
        silent = [socket.create_connection(("127.0.0.1", serving.effective_port)) for _ in range(400)]
        url = f"http://127.0.0.1:{serving.effective_port}/session/2026-0059.csv"
        asked = urllib.request.Request(url, headers={"Authorization": "Bearer t"})
        with urllib.request.urlopen(asked) as answer:
            assert answer.read().decode().startswith("session,guest,arm") and "Server" not in answer.headers
        assert len(os.listdir("/proc/self/task")) == before
        assert [connection.recv(1) for connection in silent] == [b""] * 400
    finally:
        for connection in silent:
            connection.close()
        serving.task_dispatcher.shutdown()
        wasyncore.close_all(serving._map)
        thread.join()


@pytest.mark.promise("another user", "`kit serve` accepts at most 500 connections; more wait until one is closed.")
def test_connections_beyond_the_limit_wait(store: Store) -> None:
    """Both ends of each connection are this process's: it needs twice as many descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 2000:
        pytest.skip("needs a hard limit of 2,000 open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 2000), before[1]))
    serving = server.make_server(make_app(store, "t"), 0)
    thread = threading.Thread(target=serving.run, daemon=True)
    thread.start()
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        stack.callback(thread.join)
        stack.callback(wasyncore.close_all, serving._map)
        stack.callback(serving.task_dispatcher.shutdown)
        address = ("127.0.0.1", serving.effective_port)
        silent = [stack.enter_context(socket.create_connection(address)) for _ in range(510)]
        late = stack.enter_context(socket.create_connection(address))
        late.sendall(b"GET / HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer t\r\n\r\n")
        wait_until(lambda: len(serving._map) >= server.CONNECTIONS)
        assert len(serving._map) <= 500 + 2  # the server's own socket and its trigger
        late.settimeout(0.2)
        with pytest.raises(TimeoutError):
            late.recv(1)
        for connection in silent[:20]:
            connection.close()
        late.settimeout(30)
        assert late.recv(12) == b"HTTP/1.0 200"


def test_no_query_ends_in_a_traceback(tmp_path: Path) -> None:
    store = new_store(tmp_path / "kit.db")
    store.add(night(1, 0.05))
    client = make_app(store, "t").test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = "Bearer t"
    for text in ("x", "999", "²", "٣", "-1", "1e9", "9" * 5000, "%00", "%ff", "%ed%a0%80", "1%20"):
        assert client.get(f"/?page={text}&arm={text}").status_code == 200
        assert client.get(f"/history?scenario=mine&arm=layer:overlay2&phase={text}&metric={text}").status_code == 200
        assert client.get(f"/compare?a={text}&b={text}x").status_code in (200, 404)
        assert client.get(f"/session/{text}").status_code == 404
        for name in ("scenario", "class", "since", "phase", "metric"):
            assert client.get(f"/machines?{name}={text}").status_code in (200, 404)


def test_the_command_writes_page_and_plots(kit: Kit, store: Store, tmp_path: Path) -> None:
    url, out = f"sqlite:///{tmp_path}/kit.db", tmp_path / "r.html"
    done = kit("report", "2026-0059", "20260101", "-o", out, "--plots", tmp_path / "plots", "--store", url)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert "2026-0059-history-1.png" in names and "20260101-000000-full-attribution.svg" in names and len(names) == 12
    assert "ends here" not in out.read_text() and out.stat().st_size > 100_000
    for words in (("nosuch",), ("last", "--plot-format", "gif"), ("last", "-o", "/nonexistent/x.html")):
        assert kit("report", *words, "--store", url).returncode == 2


def test_a_page_of_many_runs_stays_small() -> None:
    big = night(1, 0.05, rounds=5_000)
    made = plot_runs(analyse(big).arms)
    assert made and made.body.count("<circle") <= 2 * 1000 + 2 and "one run in" in made.title
