"""Tests of the messages between host and guest: each arrives unchanged, and other input is recognised."""

from __future__ import annotations

import json
import os
import select
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from kit.core import errors
from kit.core.codec import UnreadableError
from kit.core.errors import BusyError, KitError, RunError, TimedOut, UnavailableError, UsageError
from kit.extra.guest.agent import main
from kit.model.arm import parse_arm
from kit.model.event import (
    FactsKnown,
    PhaseStarted,
    RunFlagged,
    RunsAdded,
    RunsPlanned,
    SampleTaken,
    SessionStarted,
    StatusChanged,
    Told,
)
from kit.model.plan import PlanStep
from kit.model.session import NotRun, Request, Session
from kit.session.wire.messages import Alive, Done, Failed, Message, MessageReader, decode_line, encode_message
from kit.session.wire.remote_observer import Channel
from tests.nights import ladder_session

SESSION = ladder_session()
STEP = PlanStep(1, parse_arm("layer:podman/overlay+metacopy=on"), "jobs=2")
MESSAGES: tuple[Message, ...] = (
    Alive(), Told("ünd \n so on"), RunsPlanned(12, 3), RunsAdded(2, "an interval is wide"), FactsKnown.of(SESSION),
    PhaseStarted(STEP, "build"), SampleTaken(SESSION.samples[0]), SampleTaken(SESSION.samples[0], earlier=True),
    RunFlagged("layer:overlay2", "jobs=2", 3, "steal 9% of real"), SessionStarted(SESSION), StatusChanged("done"),
    Done.by(SESSION), Failed("UsageError", "no such thing", "name another"),
)  # fmt: skip


def said(*messages: Message) -> bytes:
    return b"".join(map(encode_message, messages))


def heard(*pieces: bytes) -> list[Message]:
    lines = MessageReader()
    return [message for piece in pieces for message in lines.feed(piece)]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_each_message_arrives_as_it_was_said(message: Message) -> None:
    assert heard(said(message)) == [message]


def test_all_messages_are_tried_here() -> None:
    assert {type(message) for message in MESSAGES} == set(get_args(Message))


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_it_does_not_matter_in_which_pieces_they_come(size: int) -> None:
    data = said(*MESSAGES)
    assert heard(*(data[at : at + size] for at in range(0, len(data), size))) == list(MESSAGES)


@pytest.mark.parametrize(
    "noise",
    [b"login: ", b"[    0.512] virtio: probed", b"\xff\xfe\0", b"", b"7", b"null", b'{"told": 1}', b"[" * 100_000],
)
def test_the_noise_of_the_device_is_no_message(noise: bytes) -> None:
    assert heard(noise, said(RunsPlanned(1, 0)), noise, b"\n", said(Told("on"))) == [RunsPlanned(1, 0), Told("on")]


def test_a_message_that_was_cut_is_not_half_understood() -> None:
    data = said(MESSAGES[5]).strip()
    for end in range(1, len(data), 50):
        assert heard(data[:end]) == []  # the guest died in it
        assert heard(data[:end], said(Told("again"))) == [Told("again")]  # something else was written into it


@pytest.mark.parametrize(
    "line",
    [
        [], [1, {}], ["told"], ["told", "text"], ["told", {}], ["told", {"text": 1}], ["told", {"text": "a"}, "b"],
        ["runsplanned", {"runs": "2", "done": 0}], ["runsplanned", {"runs": -1, "done": 0}],
        ["runflagged", {"arm": "a", "point": "", "round": 1.5, "flags": ""}],
        ["phasestarted", {"step": {}, "phase": "x"}], ["sampletaken", {"sample": {"arm": "bare"}}],
        ["told", {"\ud800": 1, "text": 2}], ["told", {"\ud800": 1}],
        ["done", {"status": "done", "known": {"facts": {"a": 1}, "not_run": []}}], ["failed", {"kind": "x"}],
    ],
    ids=json.dumps,
)  # fmt: skip
def test_a_malformed_message_is_refused(line: list[Any]) -> None:
    with pytest.raises(UnreadableError):
        decode_line(json.dumps(line).encode())


@pytest.mark.parametrize("name", ["", "sample", "job", "__class__", "Told"])
def test_an_unknown_message_is_refused_with_its_name(name: str) -> None:
    with pytest.raises(UnreadableError, match=f"'{name}'"):
        decode_line(json.dumps([name, {"text": "x"}]).encode())


@pytest.mark.parametrize("kind", [KitError, UsageError, UnavailableError, RunError, TimedOut, BusyError])
def test_an_error_of_the_guests_is_the_same_one_here(kind: type[KitError]) -> None:
    (found,) = heard(said(Failed.by(kind("what and where", "the fix"))))
    assert isinstance(found, Failed)
    error = found.error()
    assert (type(error), error.message, error.hint) == (kind, "what and where", "the fix")


@pytest.mark.parametrize("kind", ["UnreadableError", "SystemExit", "annotations", "not_installed", "MORE_ROOM", ""])
def test_an_error_that_is_none_of_the_users_is_one_of_running(kind: str) -> None:
    assert not isinstance(vars(errors).get(kind), type)
    assert type(Failed(kind, "m", "h").error()) is RunError


@pytest.fixture
def terminal() -> Iterator[tuple[Channel, int]]:
    """The guest's end of a serial line, and the host's."""
    ours, theirs = os.openpty()
    yield Channel(theirs), ours
    os.close(ours)
    os.close(theirs)


def heard_from(ours: int, number: int) -> list[Message]:
    """A line gives what it has, which may be the half of a message."""
    found: list[Message] = []
    lines = MessageReader()
    while len(found) < number and select.select([ours], [], [], 10)[0]:
        found += lines.feed(os.read(ours, 1 << 16))
    return found


def test_what_a_session_tells_goes_through_the_device(terminal: tuple[Channel, int]) -> None:
    channel, ours = terminal
    sample, told = SESSION.samples[0], partial(heard_from, ours)
    session = Session(
        "x", 1.0, "0", "t", "running", Request(), ("a",), (), 1, {"kernel": "k"}, (NotRun("a", "b", "c"),)
    )
    channel.tell("making bare ready")
    assert told(1) == [Told("making bare ready")]
    events = FactsKnown.of(session), SampleTaken(sample), PhaseStarted(STEP, "build")
    for event in events:
        channel.take(event)
    assert told(3) == list(events)


def test_text_that_no_database_holds_arrives_as_it_is_stored() -> None:
    assert heard(said(Told("a \ud800"))) == [Told("a \ufffd")]


@pytest.mark.parametrize(("job", "why"), [(None, "data/job.json: No such file or directory"), ("{", "JSONDecodeError")])
def test_what_nobody_foresaw_is_reported_and_its_traceback_is_on_the_console(
    job: str | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KIT_HOME", str(tmp_path))
    if job is not None:
        (tmp_path / "data").mkdir()
        (tmp_path / "data/job.json").write_text(job)
    ours, theirs = os.openpty()
    main(os.ttyname(theirs))
    hello, failed = heard_from(ours, 2)
    assert isinstance(hello, Told) and isinstance(failed, Failed)
    assert failed.message.startswith("the session broke off in the guest: ") and why in failed.message
    assert "Traceback" in capsys.readouterr().err
    os.close(ours)
    os.close(theirs)
