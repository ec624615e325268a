"""What leaves the kit, whatever a workload, an import or a name holds: no markup, no control sequences, no secrets."""

from __future__ import annotations

import csv
import io
import logging
import os
import re
import stat
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page

from kit.analysis.session.analyse import Analysis, analyse
from kit.core.redact import redact
from kit.core.sanitize import visible
from kit.extra.history.analysis.changepoint import track
from kit.extra.history.analysis.night import Night, Part, Task
from kit.extra.history.report.junit import render_junit
from kit.extra.history.report.night import render_night_json, render_summary
from kit.extra.history.report.page import track_views
from kit.model.event import SampleTaken
from kit.model.session import NotRun, Request, Session
from kit.parsers.figure import Reported
from kit.report import render
from kit.report.page.html import render_html
from kit.report.page.page import SessionView, view
from kit.report.plot import Picture
from kit.report.renderer import SESSIONS, find, names
from kit.report.text.progress import Lines, Quiet
from kit.session.execute.session_loop import _session_log
from kit.store import open_store
from tests.command_line import Kit
from tests.hostile import CONTROL, MARKUP, PATH, spoiled
from tests.nights import entry, ladder_session, night

_DRAWN = {"svg", "title", "desc", "style", "rect", "g", "line", "text", "circle", "path"}


@cache
def views(bad: str) -> list[SessionView]:
    """Hostile sessions as pages show them, with all plots: with a ladder, with hostile arms, with a history."""
    ladder, arms = (spoiled(ladder_session(), bad, arms_too) for arms_too in (False, True))
    nights = [spoiled(night(i, 0.05), bad, arms_too=True) for i in range(3)]
    phase = f"build{bad}"
    past = track([entry(item, phase) for item in nights], nights[-1].id)
    return [view(item, analyse(item)) for item in (ladder, arms)] + [
        view(nights[-1], analyse(nights[-1]), track_views([past], nights[-1].id))
    ]


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


@pytest.mark.promise("a workload", "No text of a workload acts on a terminal, in a page or in a spreadsheet.")
@pytest.mark.parametrize("bad", [MARKUP, CONTROL, PATH], ids=["markup", "control", "path"])
def test_no_text_of_a_session_is_active_in_a_page(bad: str) -> None:
    page = render_html(f"title{bad}", views(bad), [f"head{bad}"])
    parser = _Active()
    parser.feed(page)
    assert parser.found == ["script"]  # the page's own
    assert not parser.tags & {"img", "iframe", "object", "embed", "base", "b"}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]", page)


@pytest.mark.promise("a workload", "No text of a workload acts on a terminal, in a page or in a spreadsheet.")
@pytest.mark.parametrize("bad", [MARKUP, CONTROL, PATH], ids=["markup", "control", "path"])
def test_no_text_of_a_session_is_active_in_a_plot(bad: str) -> None:
    pictures = [picture for item in views(bad) for picture in item.pictures]
    assert len(pictures) == 3 + 2 + 3  # hostile arms have no ladder
    for picture in pictures:
        for text in (picture.file(), picture.inline()):
            for element in ElementTree.fromstring(text).iter():
                assert element.tag.rpartition("}")[2] in _DRAWN
                assert not [name for name in element.attrib if name.startswith("on") or "href" in name]


@pytest.mark.promise("a workload", "No text of a workload acts on a terminal, in a page or in a spreadsheet.")
@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_browser_runs_nothing_of_a_session(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(render_html(f"title{MARKUP}", views(MARKUP), [MARKUP]), encoding="utf-8")
    page.goto(path.as_uri())
    assert page.locator("svg[role=img]").count() == 8 and page.locator("img").count() == 0
    assert page.evaluate("window.pwned") is None
    page.get_by_role("button", name="Light or dark").click()  # its own script runs
    assert page.locator("html[data-theme]").count() == 1


def test_the_method_says_that_verdicts_rest_on_simulation() -> None:
    method = render_html("title", [], []).partition('id="method"')[2]
    assert "quantiles are simulated" in method and "Bonferroni" not in method


@pytest.mark.machine
@pytest.mark.unmeasured
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
    """Whatever they are called: that a session's id is checked when it is read is another's care."""
    from kit.cli.report import _write_plots

    out = tmp_path / "a" / "b" / "plots"
    made = view(ladder_session(), analyse(ladder_session()))
    assert made.intervals and made.attribution and made.runs
    named = replace(
        made,
        intervals=replace(made.intervals, name=f"{bad}-intervals"),
        attribution=replace(made.attribution, name=f"{bad}-attribution"),
        runs=replace(made.runs, name=f"{bad}-runs"),
    )
    _write_plots([named], out, ["svg"])
    every = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(every) == 3 and all(path.parent == out for path in every)


def test_plots_of_two_sessions_never_share_a_file() -> None:
    names = ("a/b", "a-b", "a b", "x" * 300 + "1", "x" * 300 + "2")
    assert len({Picture(name, "", "", 1, 1, "").identifier for name in names}) == 5


SECRETS = (
    "postgresql+psycopg://ci:hunter2@db/kit", "postgresql://u:hunter2/@x@db:99999999/kit", "nosuch://u:hun:ter2@h:p/x",
    "postgresql://db/kit?user=u&password=hunter2", "https://hunter2@github.com/x/y", "https://x:hunter2@git.example/y.git",
    "https://example/y?access_token=hunter2&a=1", "https://example/y?private_token=hunter2",
    "GITHUB_TOKEN=hunter2 make", "make --token=hunter2", "Authorization: Bearer hunter2hunter2",
    "fatal: unable to access 'https://oauth2:hunter2@git.example/x/': no", "mysql://u:p@hunter2@h/d",
    "https://u:p@hunter2/x@git.example/y.git", "PGPASSWORD=hunter2 psql", "curl --password hunter2 x",
    "AWS_SECRET_ACCESS_KEY=hunter2",
    "TOKEN='hun ter2' make", '--token="hunter2"', '{"password": "hunter2"}', "curl -H 'PRIVATE-TOKEN: hunter2'",
    "login failed for ci, password: hunter2", "https://store/x.tar?sv=1&sig=hunter2%3D", "git+https://hunter2@git.example/x",
    "git+ssh://hunter2hunter2hunter2hunter2@git.example/x",
)  # fmt: skip


@pytest.mark.promise("a workload", "No report, log or command shows a password that the kit recognises.")
@pytest.mark.parametrize(
    "text",
    ["curl -u me:hunter2 https://x", "curl -sS --user 'me:hunter2' x", "['curl', '-u', 'me:hunter2']",
     "mysql -h db -phunter2 -e x", "mysqldump -uroot -phunter2", "Cookie: session=hunter2; theme=hunter2",
     "set-cookie: a=\"hunter2\"", "API_KEY: hunter2", "MY_PRIVATE_KEY: hunter2", "DB_PASSWORD: hunter2",
     "GITHUB_TOKEN: hunter2", "//registry/:_authToken npm_hunter2hunter2hunter2", "xoxb-1234567890-hunter2hunter2",
     "dckr_pat_hunter2hunter2hunter2"],
)  # fmt: skip
def test_a_secret_of_a_programs_own_kind_is_left_out(text: str) -> None:
    assert not re.search("hunter|ter2", redact(text))
    assert redact(redact(text)) == redact(text)


@pytest.mark.promise("a workload", "No report, log or command shows a password that the kit recognises.")
@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_left_out(text: str) -> None:
    assert not re.search("hunter|ter2", redact(text))
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    "text",
    ["sqlite:////srv/kit.db", "postgresql+psycopg://ci@db/kit", "ssh://git@host/x", "bare@ext4", "layer:overlay2+a=b",
     "https://example.org/a@b?x=y", "make -j8 CFLAGS=-O2", "http://127.0.0.1:8910/", "jobs=2; config=tiny",
     "tokens=5", "root@machine:/x", "a basic test", "OLDPWD=/x", "the token: new with each start",
     "/etc/passwd: damaged", "git+ssh://git@host/x", "unexpected token: }",
     "docker run -u 1000:1000 x", "cc mysql.c -pthread -pipe", "make cookies", "the key: value"],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "part",
    [
        "-",
        "a+",
        "http://",
        "http://:",
        "a:",
        "token='",
        '"token":"',
        "basic ",
        "_",
        "curl ",
        "curl -u ",
        "mysql ",
        "a_",
        "cookie:",
    ],
)
def test_no_text_takes_long_to_redact(part: str) -> None:
    """Were it a time that grows with the square of the length, this would take minutes: 20,000 dashes once did."""
    assert redact(part * (20_000 // len(part)) + "=")


@cache
def _secretive() -> tuple[Session, Analysis]:
    session = ladder_session()
    url = "https://user:hunter2@git.example/a-rather-long-path/with-hyphens/that-a-line-does-not-hold"
    failed = replace(session.samples[-1], error=f"cloning {url} failed {'x ' * 30}{url}")
    made = replace(
        session, title=f"make SOURCE={url}", facts={**session.facts, "source": url},
        request=replace(session.request, source=url, command=("git", "clone", url)),
        not_run=(NotRun("layer:aufs", f"can't fetch {url}", f"git clone {url}"),),
        samples=(*session.samples[:-1], failed),
    )  # fmt: skip
    return made, analyse(made)


@cache
def _controlling(arms_too: bool) -> tuple[Session, Analysis]:
    made = spoiled(ladder_session(), CONTROL, arms_too)
    return made, analyse(made)


RENDERED = (
    "answer",
    "full",
    "explain",
    "markdown",
    "json",
    "csv",
    "html",
    "svg",
    *(name for name in names(SESSIONS) if name != "collapsed"),  # these sessions have no stacks
    "junit",
    "summary",
    "night",
)


def rendered(name: str, session: Session, analysis: Analysis) -> str:
    """The session by one of the renderers."""
    made = Night(session.title, session.created, (Part(Task(session.request), session, analysis),))
    if name == "html":
        return render_html(session.title, [view(session, analysis)])
    if name == "svg":
        return "".join(picture.file() for picture in view(session, analysis).pictures)
    if name in names(SESSIONS):
        return find(SESSIONS, name).render([session])
    if name in ("junit", "summary", "night"):
        return {"junit": render_junit, "summary": render_summary, "night": render_night_json}[name](made)
    return render(name, session, analysis)


@pytest.mark.promise("a workload", "No report, log or command shows a password that the kit recognises.")
@pytest.mark.parametrize("name", RENDERED)
def test_no_report_holds_a_secret(name: str) -> None:
    text = rendered(name, *_secretive())
    assert "hunter2" not in re.sub(r"\s", "", text)
    assert text.count("***") or name in ("svg",)


@pytest.mark.promise("a workload", "No text of a workload acts on a terminal, in a page or in a spreadsheet.")
@pytest.mark.parametrize("name", RENDERED)
def test_nothing_in_a_report_acts_on_a_terminal(name: str) -> None:
    for arms_too in (False, True):
        text = rendered(name, *_controlling(arms_too))
        assert visible(text) == text
        assert "\\x1b" in text or "\\u001b" in text
        text.encode()
        if name == "junit":
            ElementTree.fromstring(text)


@pytest.mark.parametrize("name", ["answer", "full", "explain", "markdown", "html", "svg", "junit", "summary"])
def test_equivalence_is_within_the_margin_of_the_session(name: str) -> None:
    """The arm costs 2.3 %, with an interval below 3 %."""

    def said(margin: float) -> str:
        session = replace(night(1, 0.025), request=Request(margin=margin))
        return " ".join(rendered(name, session, analyse(session)).split()).replace("\u00a0", " ")

    assert "equivalent within ±3 %" in said(0.03)
    assert not re.search("equivalent within ±[0-9]", said(0.02))
    assert "equivalent within ±5 %" in said(0.05)


def test_visible_leaves_ordinary_text_alone() -> None:
    text = "Größe 5 µs …▲▼●│ \t日本 \N{WAVING HAND SIGN} line\r\nline\n\ufffd"
    assert visible(text) == text
    assert visible("50 %\r100 %\x1b[0m\u202e") == "50 %\\x0d100 %\\x1b[0m\\u202e"


@pytest.mark.promise("a workload", "No text of a workload acts on a terminal, in a page or in a spreadsheet.")
def test_a_spreadsheet_takes_no_text_for_a_formula() -> None:
    session = spoiled(ladder_session(), "", arms_too=False)
    said = (Reported("=cmd|' /C calc'!A0", -5.5, "s"), Reported("@SUM(A1)", 1.0, "s"))
    first = session.samples[0]
    sample = replace(first, error="=HYPERLINK(1)", log="-1+2", load="+x", flags="-0.5",
                     phases=(replace(first.phases[0], real=-1.5, reported=said),))  # fmt: skip
    text = render("csv", replace(session, samples=(replace(sample, arm="@x"),)))
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["arm"], row["error"], row["log"], row["load"]) == ("'@x", "'=HYPERLINK(1)", "'-1+2", "'+x")
    assert (row["flags"], row["real"], row["'=cmd|' /C calc'!A0"], row["'@SUM(A1)"]) == ("-0.5", "-1.5", "-5.5", "1.0")


def test_no_reported_figure_takes_a_column_of_the_sheet() -> None:
    said = tuple(Reported(name, 180.0, "ms") for name in ("flush", "session", "speed"))
    session = ladder_session()
    first = session.samples[0]
    sample = replace(first, phases=(replace(first.phases[0], flush=0.05, reported=said),))
    heading, line = csv.reader(io.StringIO(render("csv", replace(session, samples=(sample,)))))
    row = dict(zip(heading, line, strict=True))
    assert len(row) == len(heading)
    assert (row["flush"], row["session"], row["speed"]) == ("0.05", session.id, "180.0")


@pytest.mark.promise("a workload", "No report, log or command shows a password that the kit recognises.")
def test_the_command_line_says_no_secret(kit: Kit, tmp_path: Path) -> None:
    for url in ("postgresql+psycopg://ci:hunter2@127.0.0.1:1/kit", "nosuch://u:hunter2@h/x",
                "postgresql+psycopg://127.0.0.1:1/kit?password=hunter2"):  # fmt: skip
        done = kit("sessions", "--store", url)
        assert done.returncode == 2 and "hunter2" not in done.stderr + done.stdout, done.stderr
    night = tmp_path / "night.toml"
    night.write_text(
        'store = "postgresql+psycopg://ci@db/kit?password=hunter2"\n[[tasks]]\nscenario = "smoke"\narms = ["bare"]\n'
    )
    done = kit("nightly", night, "--check")
    assert done.returncode == 2 and "--store postgresql+psycopg://ci@db/kit: " in done.stderr
    assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.promise("a workload", "No report, log or command shows a password that the kit recognises.")
def test_the_sessions_log_holds_no_secret(tmp_path: Path) -> None:
    with _session_log(tmp_path / "session.log"):
        logging.getLogger("kit.command").debug("run: %s", "git clone https://hunter2@github.com/x")
    text = (tmp_path / "session.log").read_text()
    assert "hunter2" not in text and "https://***@github.com/x" in text


@pytest.mark.promise("another user", "Other users read neither the store, nor what waits for it, nor logs.")
def test_the_logs_of_a_session_are_its_owners_alone(tmp_path: Path) -> None:
    """The store may be elsewhere; the umask, which arms and pytest inherit, stays as it was."""
    before = os.umask(0o022)
    try:
        with _session_log(tmp_path / "logs" / "one" / "session.log"):
            assert stat.S_IMODE((tmp_path / "logs" / "one").stat().st_mode) == 0o700
        assert os.umask(before) == 0o022
    finally:
        os.umask(before)


def test_the_list_of_sessions_moves_no_cursor(kit: Kit, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/kit.db"
    secret = "\x1b]0;x\x07 https://x:hunter2@h/"
    first, *others = night(1, 0.05).samples
    samples = (replace(first, log=secret), *others)
    session = replace(night(1, 0.05), title=secret, facts={"machine": "\x9b2J"}, samples=samples)
    open_store(url, tmp_path).add(session)
    for words in (("sessions",), ("sessions", "--json"), ("show",), ("show", "--format", "csv"), ("export", "last")):
        done = kit(*words, "--store", url)
        assert done.returncode == 0 and visible(done.stdout) == done.stdout, done.stderr
        assert "hunter2" not in done.stdout and "x1b" in done.stdout.replace("\\u001b", "\\x1b")


@pytest.mark.promise("a workload", "No text of a workload acts on a terminal, in a page or in a spreadsheet.")
def test_progress_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    sample = replace(ladder_session().samples[-1], error="\x1b[2Jno https://hunter2@h/ \x9b")
    for observer in (Quiet(), Lines()):
        observer.take(SampleTaken(sample))
    said = capsys.readouterr().err
    assert said.count("\\x1b[2Jno https://***@h/ \\x9b") == 2 and visible(said) == said


def test_words_that_are_not_utf8_are_one_line(kit: Kit) -> None:
    for words in (("sessions", "--scenario", "\udcff"), ("\udcff",), ("show", "\udcff"), ("import", "x\udcff")):
        done = kit(*words)
        assert done.returncode == 2 and "is not UTF-8\n" in done.stderr and "Traceback" not in done.stderr
        assert done.stderr.count("\n") == 2


def test_a_setting_that_is_not_utf8_is_one_line(kit: Kit) -> None:
    done = kit("sessions", KIT_STORE="sqlite:////tmp/\udcff")
    assert (
        done.returncode == 2
        and "'KIT_STORE=sqlite:////tmp/\\udcff' is not UTF-8" in done.stderr
        and "Traceback" not in done.stderr
    )
