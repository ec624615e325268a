"""The host's side of a session in a guest: what any process says on its channel is kept and shown, and how it ends."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from kit.core.codec import UnreadableError
from kit.core.errors import RunError, UsageError
from kit.core.paths import Paths
from kit.extra.guest import Kernel, Tools
from kit.extra.guest.host import console_log
from kit.extra.guest.listener import Guest
from kit.extra.guest.uml import UserModeLinux
from kit.host.command import spawn, stop
from kit.host.machine import read_host
from kit.model.arm import parse_arm, parse_arms
from kit.model.event import (
    Event,
    EventSink,
    FactsKnown,
    PhaseStarted,
    Relay,
    RunFlagged,
    RunsAdded,
    RunsPlanned,
    SampleTaken,
    SessionStarted,
    StatusChanged,
    Told,
)
from kit.model.options import SessionOptions
from kit.model.plan import PlanStep, make_plan
from kit.model.session import DONE, NotRun, Session
from kit.session.measure.phase_log import HEAD, MOST_LOG, TAIL
from kit.session.prepared import Prepared, SessionContext
from kit.session.wire.messages import Done, Failed, Message, encode_message
from kit.store import Store
from tests.sinks import Stored
from tests.stored import SAMPLE, SESSION
from tests.stores import new_store
from tests.waiting import wait_until

ARMS = parse_arms("bare")
STEP = PlanStep(1, ARMS[0])
LOGGED = replace(SAMPLE, log=f"/kit/data/logs/{SESSION.id}/bare-1.log")
END = replace(SESSION, status=DONE, facts={"kernel": "6"}, samples=(replace(LOGGED, flags="steal"),))


class Shown(EventSink):
    """An observer that keeps its messages as text."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def take(self, event: Event) -> None:
        match event:
            case Told():
                self.said.append(event.text)
            case RunsPlanned():
                self.said.append(f"planned {event.runs} after {event.done}")
            case RunsAdded():
                self.said.append(f"extended by {event.runs}: {event.reason}")
            case PhaseStarted():
                self.said.append(f"running {event.step.arm} {event.phase}")
            case SampleTaken():
                self.said.append(f"finished {event.sample.arm} {event.sample.log}")


class MachineLease:
    """A store with the session, an observer, and guests that say what a file holds."""

    def __init__(self, tmp_path: Path, stack: ExitStack) -> None:
        self.logs = tmp_path / "data/logs"
        (self.logs / SESSION.id).mkdir(parents=True)
        self.console = self.logs / SESSION.id / "console.log"
        self.console.write_text("booting\n\nKernel panic - not syncing\n")
        self.store: Store = new_store(tmp_path / "kit.db")
        self.store.create(SESSION)
        self.told = Shown()
        self._tmp, self._stack = tmp_path, stack

    def listen(self, *words: str, patience: float = 60) -> Session:
        paths = Paths(*[self._tmp / name for name in ("data", "cache", "state", "run/kit", "lock")])
        plan, machine = make_plan(ARMS, SessionOptions(rounds=1, seed=3)), UserModeLinux(Tools(self._tmp), Kernel())
        ours, theirs = os.pipe()
        self._stack.callback(os.close, ours)
        with os.fdopen(theirs, "wb") as channel:
            process = spawn(words, output=channel)
        self._stack.callback(stop, process)
        relay = Relay(Stored(self.store, SESSION.id), self.told)
        context = SessionContext(Prepared(SESSION.request, {}, plan, {}), read_host(), paths, relay)
        return Guest(process, ours, self.console, patience).listen(SESSION, context, machine)

    def listen_to(self, *messages: Message | bytes) -> Session:
        said = [item if isinstance(item, bytes) else encode_message(item) for item in messages]
        (self._tmp / "said").write_bytes(b"".join(said))
        return self.listen("cat", str(self._tmp / "said"))


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[MachineLease]:
    with ExitStack() as stack:
        yield MachineLease(tmp_path, stack)


def test_what_a_guest_says_is_kept_and_shown(lease: MachineLease) -> None:
    found = lease.listen_to(
        b"login: ", Told("the guest runs 6.1"), Told("making bare ready"), FactsKnown({"kernel": "6"}, SESSION.not_run),
        RunsPlanned(1, 0), PhaseStarted(STEP, "build"), SampleTaken(LOGGED), RunsAdded(1, "hit"),
        RunFlagged("bare", "", 1, "steal"), Done.by(END),
    )  # fmt: skip
    log = f"{lease.logs}/{SESSION.id}/bare-1.log"
    assert lease.told.said == [
        "the guest runs 6.1", "making bare ready", "planned 1 after 0", "running bare build",
        f"finished bare {log}", "extended by 1: hit",
    ]  # fmt: skip
    assert (found.status, [item.log for item in found.samples]) == (DONE, [log])
    kept = lease.store.get(SESSION.id)
    assert kept.samples == (replace(LOGGED, log=log, flags="steal"),) == found.samples
    host = read_host()
    assert kept.facts == found.facts
    assert (kept.facts["host kernel"], kept.facts["machine"]) == (host.kernel, host.machine)
    assert (kept.facts["guest"], kept.facts["kernel"]) == ("User-Mode Linux", "6")


@pytest.mark.promise("a guest", "A guest reports runs, facts and logs of its own session alone.")
def test_a_guest_is_believed_facts_and_arms_that_do_not_run_alone(lease: MachineLease) -> None:
    """120 figures of a session that another had run were stored, by the id in what the guest said."""
    other = replace(SESSION, id="20250101-000000-bbbb", title="theirs", status=DONE)
    lease.store.create(other)
    bad = replace(
        END, id=other.id, title="evil", arms=("bare", "evil"), baselines=(), seed=6, kit_version="9", created=5.0,
        request=replace(SESSION.request, command=("sh", "-c", "evil")), imported=True, not_run=(),
        facts={"kernel": "7", "worker": "evil", "machine": "evil"}, samples=(replace(LOGGED, arm="evil"),) * 3,
    )  # fmt: skip
    found = lease.listen_to(FactsKnown.of(bad), SampleTaken(LOGGED), Done.by(bad))
    host = read_host()
    expected = replace(SESSION, status=DONE, facts=found.facts, not_run=(), samples=found.samples)
    assert found == expected and found.facts["kernel"] == "7" and found.facts["machine"] == host.machine
    assert "worker" not in found.facts and [item.arm for item in found.samples] == ["bare"]
    assert lease.store.get(other.id) == other
    assert lease.store.get(SESSION.id) == replace(found, status="running")


@pytest.mark.promise("a guest", "A guest reports runs, facts and logs of its own session alone.")
@pytest.mark.parametrize("log", ["/etc/shadow", "/kit/data/../../etc/x.log", "x.log", "/kit/data/logs/other/x.log", ""])
def test_a_log_lies_among_those_of_the_session(lease: MachineLease, log: str) -> None:
    (found,) = lease.listen_to(SampleTaken(replace(LOGGED, log=log)), Done.by(END)).samples
    assert found.log in ("", f"{lease.logs}/{SESSION.id}/x.log")


@pytest.mark.promise("a guest", "A guest reports runs, facts and logs of its own session alone.")
@pytest.mark.parametrize(
    "message",
    [
        SampleTaken(replace(LOGGED, arm="evil")), SampleTaken(replace(LOGGED, point="jobs=9")),
        RunFlagged("evil", "", 1, "steal"), PhaseStarted(PlanStep(1, parse_arm("layer:vfs")), "build"),
        SessionStarted(SESSION), StatusChanged(DONE), Done.by(replace(END, status="evil")),
        Done.by(replace(END, status="running")),
        Done.by(replace(END, facts={"x": "y" * 100_000})), FactsKnown({str(i): "" for i in range(2000)}, ()),
        FactsKnown({}, (NotRun("evil", "no", "none"),)),
    ],
    ids=lambda message: type(message).__name__,
)  # fmt: skip
def test_what_a_guest_may_not_say_ends_it(lease: MachineLease, message: Message) -> None:
    with pytest.raises(UnreadableError, match="the guest broke the protocol"):
        lease.listen_to(SampleTaken(LOGGED), message, Done.by(END))
    (kept,) = lease.store.get(SESSION.id).samples
    assert kept.arm == "bare" and not kept.flags


@pytest.mark.promise("a guest", "A guest fills neither the memory nor the disk of the host.")
def test_a_guest_does_not_say_runs_without_end(lease: MachineLease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kit.session.wire.claims.MOST_SAMPLES", 3)
    with pytest.raises(UnreadableError, match="more than 3 runs"):
        lease.listen_to(*(SampleTaken(replace(LOGGED, round=number)) for number in range(5)))
    assert len(lease.store.get(SESSION.id).samples) == 3


@pytest.mark.promise("a guest", "A guest fills neither the memory nor the disk of the host.")
def test_a_line_without_end_is_refused_before_it_fills_the_memory(lease: MachineLease) -> None:
    with pytest.raises(UnreadableError, match="more than 16 MiB in one line"):
        lease.listen("head", "-c", "300M", "/dev/zero")


def test_an_error_quotes_the_end_of_a_long_console(lease: MachineLease) -> None:
    with lease.console.open("r+b") as file:
        file.truncate(400 << 20)
        file.seek(0, 2)
        file.write(b"\n\nthe end\n" + b"\n" * 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RunError, match=r"\| the end\n"):
        lease.listen_to(Told("the guest runs 6.1"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


@pytest.mark.promise("a guest", "A guest fills neither the memory nor the disk of the host.")
def test_a_console_keeps_its_ends(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    path.write_text("of a start before")
    script = "echo booting; head -c 70M /dev/zero | tr '\\0' x; echo; echo the end"
    with console_log(path) as output:
        process = spawn(["sh", "-c", script], output=output)
        output.close()
        sizes = [0]

        def ended() -> bool:
            sizes.append(path.stat().st_size)
            return process.poll() is not None

        wait_until(ended)
    said = path.read_bytes()
    assert len(said) <= MOST_LOG and max(*sizes, len(said)) <= HEAD + 2 * TAIL + (1 << 17)
    assert said.startswith(b"booting\nxxx") and said.endswith(b"xxx\nthe end\n")
    assert b"\n[\xe2\x80\xa6 54 MiB cut out \xe2\x80\xa6]\n" in said


def cut() -> bytes:
    return encode_message(Done.by(END))[:-9]


@pytest.mark.parametrize("last", [[], [cut()], [b"panic"]], ids=["whole", "cut", "noise"])
def test_a_guest_that_dies_is_quoted_and_its_samples_are_kept(lease: MachineLease, last: list[bytes]) -> None:
    with pytest.raises(RunError, match=re.escape("early: | booting | Kernel panic")):
        lease.listen_to(Told("the guest runs 6.1"), SampleTaken(LOGGED), *last)
    assert len(lease.store.get(SESSION.id).samples) == 1


@pytest.mark.parametrize(
    "bad", [b'\n["sampletaken", {"sample": 1}]\n', b'\n["later", {}]\n'], ids=["malformed", "unknown"]
)
def test_a_message_that_is_not_understood_ends_it(lease: MachineLease, bad: bytes) -> None:
    with pytest.raises(UnreadableError):
        lease.listen_to(SampleTaken(LOGGED), bad, Done.by(END))
    assert len(lease.store.get(SESSION.id).samples) == 1


def test_an_error_of_the_guests_is_raised_here(lease: MachineLease) -> None:
    with pytest.raises(UsageError, match="ran on kernel 5") as found:
        lease.listen_to(Told("the guest runs 6.1"), Failed.by(UsageError("ran on kernel 5", "start a new one")))
    assert found.value.hint == "start a new one"


def test_where_the_guest_knows_no_fix_its_console_is_named(lease: MachineLease) -> None:
    with pytest.raises(RunError, match="broke off in the guest") as found:
        lease.listen_to(
            Told("the guest runs 6.1"), Failed.by(RunError("the session broke off in the guest: KeyError('x')"))
        )
    assert found.value.hint == f"see its console: {lease.console}"


def test_a_guest_that_says_nothing_is_not_waited_for_for_ever(lease: MachineLease) -> None:
    with pytest.raises(RunError, match="no message from the guest for 0 s, it hangs"):
        lease.listen("sleep", "600", patience=0)


def test_a_guest_that_falls_silent_hangs_and_its_samples_are_kept(lease: MachineLease, tmp_path: Path) -> None:
    (tmp_path / "said").write_bytes(encode_message(Told("the guest runs 6.1")) + encode_message(SampleTaken(LOGGED)))
    with pytest.raises(RunError, match="no message from the guest for 3 s, it hangs"):
        lease.listen("sh", "-c", f"cat {tmp_path}/said; sleep 600", patience=3)
    assert len(lease.store.get(SESSION.id).samples) == 1
