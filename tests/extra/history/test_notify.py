"""Messages of nights: sent by Apprise to a server of this process, one for each change of state, and no secret of a URL
in any text."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kit.analysis.session.threshold import parse_threshold
from kit.core.errors import MachineError, UsageError
from kit.core.exit_code import NOT_RUN
from kit.extra.history.analysis.night import Night, Part, Task
from kit.extra.history.analysis.regression import CHANGE
from kit.extra.history.message import Message
from kit.extra.history.nightly.file import parse_nightly
from kit.extra.history.nightly.job import Job
from kit.extra.history.nightly.messages import notify
from kit.extra.history.nightly.notify import open_destinations, send
from kit.extra.history.nightly.run import assess
from kit.model.session import INTERRUPTED, NotRun, Request, Session
from kit.store import Store, open_store
from tests.command_line import Kit, in_new_process
from tests.nights import night
from tests.receiver import Receiver
from tests.stores import new_store

TASK = Task(
    Request(command=("true",), title="mine", arms=("bare", "layer:overlay2")),
    (parse_threshold("layer:overlay2 < 10 %"), parse_threshold("layer:overlay2 clean < 50 %")),
    on=CHANGE,
)
JOB = Job("nightly", (TASK,))
FILE = """\
[notify]
urls = ["env:CHAT"]
[[tasks]]
command = ["true"]
title = "mine"
arms = ["bare", "layer:overlay2"]
on = "change"
control = false
thresholds = ["layer:overlay2 < 10 %"]
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path / "kit.db")


def held(store: Store, sessions: Sequence[Session]) -> None:
    """Hold a night for each session."""
    for session in sessions:
        store.add(session)
        part = assess(TASK, store.get(session.id), store, JOB.rule(TASK))
        notify(JOB, Night("nightly", session.created, (part,)), store, open_destinations(["env:CHAT"]))


def test_one_message_when_a_limit_breaks_and_one_when_it_holds_again(receiver: Receiver, store: Store) -> None:
    penalties = [0.05] * 8 + [0.2] * 5 + [0.05] * 2
    held(store, [night(number, penalty) for number, penalty in enumerate(penalties)])
    worse, better = receiver.got
    assert worse["title"].startswith("nightly: REGRESSION, 2001-") and worse["type"] == "failure"
    assert worse["message"].startswith("mine: layer:overlay2 < 10 %: ok → limit broken\n\nREGRESSION: layer:overlay2")
    assert "session 2026-0010" in worse["message"]  # the third of them confirms the change
    assert better["title"].startswith("nightly: good") and better["type"] == "success"
    assert better["message"].startswith("mine: layer:overlay2 < 10 %: limit broken → ok\n\n")
    assert "session 2026-0013" in better["message"]
    for message in receiver.got:
        (file,) = message["attachments"]
        content = base64.b64decode(file["base64"])
        kind, start = ("png", b"\x89PNG") if file["mimetype"] == "image/png" else ("svg+xml", b"<svg")
        assert file["mimetype"] == f"image/{kind}" and content.startswith(start)


def test_the_plot_is_svg_where_png_cannot_be_drawn(
    receiver: Receiver, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    held(store, [night(number, penalty) for number, penalty in enumerate([0.05] * 8 + [0.2] * 3)])
    ((file,),) = (message["attachments"] for message in receiver.got)
    svg = base64.b64decode(file["base64"]).decode()
    assert file["mimetype"] == "image/svg+xml" and file["filename"].endswith(".svg")
    assert "limit +10" in svg and "▲" in svg


def test_what_fails_is_a_message_and_so_is_its_end(receiver: Receiver, store: Store) -> None:
    def without(number: int) -> Session:
        session = night(number, 0.05)
        samples = tuple(item for item in session.samples if item.arm == "bare")
        return replace(session, samples=samples, not_run=(NotRun("layer:overlay2", "no overlay", "boot another"),))

    held(store, [night(1, 0.05), without(2), without(3), night(4, 0.05)])
    failed, well = receiver.got
    assert failed["title"].startswith("nightly: could not run") and failed["type"] == "failure"
    assert "mine: layer:overlay2: ok → failed\n" in failed["message"] and "no overlay" in failed["message"]
    assert "mine: layer:overlay2: failed → ok\n" in well["message"] and well["type"] == "success"


def test_a_task_that_could_not_start_is_a_message_each_night(receiver: Receiver, store: Store) -> None:
    """It leaves no session."""
    for _ in range(2):
        part = Part(TASK, error="no image\n  fix: build it")
        notify(JOB, Night("nightly", 1e9, (part,)), store, open_destinations(["env:CHAT"]))
    assert [message["message"].partition("\n")[0] for message in receiver.got] == ["mine: ok → failed"] * 2
    assert receiver.got[0]["attachments"] == []


def test_sessions_of_other_arms_and_machines_are_no_earlier_night(receiver: Receiver, store: Store) -> None:
    held(store, [*(night(number, 0.05) for number in range(8)), *(night(number, 0.2) for number in range(10, 13))])
    assert len(receiver.got) == 1
    later = 1e9 + 86400 * 12.5
    other = night(20, 0.05, machine="bb", kernel="6.2")  # and so a series of its own
    held(store, [replace(other, created=later)])
    store.add(replace(night(21, 0.05), created=later, arms=("bare", "layer:overlay2", "layer:vfs"), status=INTERRUPTED))
    held(store, [night(13, 0.2)])
    assert len(receiver.got) == 1  # the night before had that regression


def test_a_message_that_cannot_be_sent_is_a_warning_without_a_secret(
    receiver: Receiver, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    part = Part(TASK, error="no image")
    for status, says in ((401, "401"), (500, "500")):
        receiver.status = status
        notify(JOB, Night("nightly", 1e9, (part,)), store, open_destinations(["env:CHAT"]))
        said = capsys.readouterr()
        assert said.err.startswith("kit: could not send the message to json://*** (variable CHAT): "), said.err
        assert says in said.err and receiver.is_silent(said.out + said.err)
    gone = open_destinations([f"json://robot:hunter2@127.0.0.1:1/T0KEN{'x' * 40}"])
    why = send(Message("t", "b", True), gone[0])
    assert why and receiver.is_silent(why + repr(gone))
    assert receiver.is_silent(repr(Job("n", (), notify=(receiver.url,))))


def test_a_long_text_is_cut(receiver: Receiver) -> None:
    (to,) = open_destinations(["env:CHAT"])
    assert send(Message("t", "first line\n" + "x" * 100_000, False), to) == ""
    (message,) = receiver.got
    assert message["message"].startswith("first line") and len(message["message"]) < 40_000


def test_a_file_may_hold_the_urls(receiver: Receiver, tmp_path: Path) -> None:
    path = tmp_path / "urls"
    path.write_text(f"{receiver.url}\n{receiver.url}-2\n")
    found = open_destinations([f"file:{path}"])
    assert [send(Message("t", "b", False), to) for to in found] == ["", ""] and len(receiver.got) == 2
    assert str(found[1]) == f"json://*** (file {path})"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "notify: variable CHAT is empty; .*--preserve-env=CHAT"),
        ("hunter2", "notify: variable CHAT: it is no URL"),
        ("nosuch://hunter2", "notify: variable CHAT: nosuch:// is no URL that Apprise accepts"),
        ("json://", "json:// is no URL"),
    ],
)
def test_a_wrong_url_is_found_before_the_night(value: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT", value)
    with pytest.raises(UsageError) as found:
        open_destinations(["env:CHAT"])
    said = f"{found.value.message}; {found.value.hint}"
    assert "hunter2" not in said
    assert re.search(says, said), said


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("notify = 3", "notify must be a table"),
        ("[notify]", "notify: no urls"),
        ("[notify]\nurls = []", "notify: no urls"),
        ("[notify]\nurl = ['hunter2']", "notify: unknown key 'url'"),
        ("[notify]\nurls = 'hunter2://x'", "notify: urls must be a list of strings"),
        ("[notify]\nurls = ['env:A', 'hunter2']", "notify: item 2 of urls is neither env:NAME, file:PATH nor a URL"),
    ],
)
def test_bad_tables(table: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"n.toml: {says}") as found:
        parse_nightly(f"{table}\n[[tasks]]\nscenario='smoke'", "n.toml", "n")
    assert "hunter2" not in str(found.value)


def test_without_apprise_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    assert open_destinations([]) == ()
    with pytest.raises(MachineError) as found:
        open_destinations(["json://127.0.0.1"])
    assert "storage-driver-test-kit[notify]" in found.value.hint


def test_a_dry_run_shows_the_message_and_sends_nothing(kit: Kit, receiver: Receiver, tmp_path: Path) -> None:
    path, url = tmp_path / "night.toml", f"sqlite:///{tmp_path}/kit.db"
    path.write_text(FILE)
    store = new_store(tmp_path / "kit.db")
    done = kit("nightly", path, "--dry-run", "--store", url)
    assert done.returncode == 0 and "the store has no session of these tasks" in done.stdout, done.stderr
    for number, penalty in enumerate([0.05] * 8 + [0.2] * 3):
        store.add(night(number, penalty))
    done = kit("nightly", path, "--check", "--store", url)
    assert done.returncode == 0, done.stderr
    assert "messages: json://*** (variable CHAT)\nthe newest sessions would send:\n  night: REGRESSION" in done.stdout
    assert "  mine: layer:overlay2 < 10 %: ok → limit broken\n" in done.stdout and "  attached: mine-" in done.stdout
    store.add(night(11, 0.2))
    done = kit("nightly", path, "--check", "--store", url)
    assert "the newest sessions changed no state: not sent:\n  night: REGRESSION" in done.stdout
    assert receiver.got == [] and receiver.is_silent(done.stdout + done.stderr)
    done = kit("nightly", path, "--check", "--store", url, CHAT="")
    assert done.returncode == 2 and "variable CHAT is empty" in done.stderr


def test_a_message_that_cannot_be_sent_changes_no_exit_code(receiver: Receiver, tmp_path: Path) -> None:
    """In a new process: Apprise's threads, which send, are not those of a fork."""
    path, out = tmp_path / "night.toml", tmp_path / "out"
    path.write_text("[notify]\nurls = ['env:CHAT']\n[[tasks]]\nscenario = 'nosuch'\n")
    receiver.status = 503
    url = f"sqlite:///{tmp_path}/kit.db"
    done = in_new_process("nightly", path, "-q", "--store", url, "--output", out, "--json", "-")
    assert (done.returncode, json.loads(done.stdout)["exit_code"]) == (NOT_RUN, NOT_RUN), done.stderr
    assert "kit: could not send the message to json://*** (variable CHAT): " in done.stderr and receiver.asked == 1
    kept = b"".join(file.read_bytes() for file in (*out.iterdir(), tmp_path / "kit.db")).decode(errors="replace")
    assert receiver.is_silent(done.stdout + done.stderr + kept)


def test_a_server_that_is_away_is_a_message(receiver: Receiver, tmp_path: Path) -> None:
    away = open_store("postgresql+psycopg://kit@127.0.0.1:1/kit", tmp_path / "kit.db", patient=True)
    part = assess(TASK, night(1, 0.05), away, JOB.rule(TASK))
    notify(JOB, Night("nightly", 1e9, (part,)), away, open_destinations(["env:CHAT"]))
    (message,) = receiver.got
    assert message["message"].startswith("mine: ok → failed\n")
    assert "not compared with its history" in message["message"]
