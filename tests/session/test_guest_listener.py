"""The host's side of a session in a guest: what any process says on its channel is kept and shown, and how it ends."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from kit.core.codec import UnreadableError
from kit.core.errors import RunError, UsageError
from kit.core.paths import Paths
from kit.guest import Kernel, Tools
from kit.guest.uml import UserModeLinux
from kit.host.command import spawn, stop
from kit.host.machine import read_host
from kit.model.arm import parse_arms
from kit.model.plan import PlanStep, make_plan
from kit.model.sample import Sample
from kit.model.session import DONE, Session
from kit.session.guest_listener import Guest
from kit.session.guest_protocol import (
    Done,
    Extended,
    Failed,
    Finished,
    Flagged,
    Hello,
    Measured,
    Message,
    Planned,
    Running,
    Tell,
    Updated,
    encode_message,
)
from kit.session.local import SessionContext
from kit.store import Store
from tests.stored import SAMPLE, SESSION
from tests.stores import new_store

ARMS = parse_arms("bare")
STEP = PlanStep(1, ARMS[0])
LOGGED = replace(SAMPLE, log=f"/kit/data/logs/{SESSION.id}/bare-1.log")
END = replace(SESSION, status=DONE, facts={"kernel": "6"}, samples=(replace(LOGGED, flags="steal"),))


class Told:
    """What the observer is told, as text."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def tell(self, text: str) -> None:
        self.said.append(text)

    def began(self, session: Session) -> None:
        self.said.append("began")

    def planned(self, steps: int, done: int) -> None:
        self.said.append(f"planned {steps} after {done}")

    def extended(self, steps: int, reason: str) -> None:
        self.said.append(f"extended by {steps}: {reason}")

    def running(self, step: PlanStep, phase: str) -> None:
        self.said.append(f"running {step.arm} {phase}")

    def finished(self, step: PlanStep, sample: Sample) -> None:
        self.said.append(f"finished {step.arm} {sample.log}")


class Bench:
    """A store with the session, an observer, and guests that say what a file holds."""

    def __init__(self, tmp_path: Path, stack: ExitStack) -> None:
        self.logs = tmp_path / "data/logs"
        (self.logs / SESSION.id).mkdir(parents=True)
        self.console = self.logs / SESSION.id / "console.log"
        self.console.write_text("booting\n\nKernel panic - not syncing\n")
        self.store: Store = new_store(tmp_path / "kit.db")
        self.store.create(SESSION)
        self.told = Told()
        self._tmp, self._stack = tmp_path, stack

    def listen(self, *words: str, patience: float = 60) -> Session:
        paths = Paths(*[self._tmp / name for name in ("data", "cache", "state", "run", "lock")])
        plan, machine = make_plan(ARMS, rounds=1, seed=3), UserModeLinux(Tools(self._tmp), Kernel())
        ours, theirs = os.pipe()
        self._stack.callback(os.close, ours)
        with os.fdopen(theirs, "wb") as channel:
            process = spawn(words, output=channel)
        self._stack.callback(stop, process)
        context = SessionContext(plan, {}, read_host(), paths, self.store, self.told)
        return Guest(process, ours, self.console, patience).listen(SESSION, context, machine)

    def hear(self, *messages: Message | bytes) -> Session:
        said = [item if isinstance(item, bytes) else encode_message(item) for item in messages]
        (self._tmp / "said").write_bytes(b"".join(said))
        return self.listen("cat", str(self._tmp / "said"))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(tmp_path, stack)


def test_what_a_guest_says_is_kept_and_shown(bench: Bench) -> None:
    found = bench.hear(
        b"login: ", Hello("6.1"), Tell("making bare ready"), Updated(replace(SESSION, facts={"kernel": "6"})),
        Planned(1, 0), Running(STEP, "build"), Measured(LOGGED), Finished(STEP), Extended(1, "hit"),
        Flagged("bare", "", 1, "steal"), Done(END),
    )  # fmt: skip
    log = f"{bench.logs}/{SESSION.id}/bare-1.log"
    assert bench.told.said == [
        "the guest runs 6.1", "making bare ready", "planned 1 after 0", "running bare build",
        f"finished bare {log}", "extended by 1: hit",
    ]  # fmt: skip
    assert (found.status, [item.log for item in found.samples]) == (DONE, [log])
    kept = bench.store.get(SESSION.id)
    assert kept.samples == (replace(LOGGED, log=log, flags="steal"),) == found.samples
    host = read_host()
    assert kept.facts == found.facts
    assert (kept.facts["host kernel"], kept.facts["machine"]) == (host.kernel, host.machine)
    assert (kept.facts["guest"], kept.facts["kernel"]) == ("User-Mode Linux", "6")


def cut() -> bytes:
    return encode_message(Done(END))[:-9]


@pytest.mark.parametrize("last", [[], [cut()], [b"panic"]], ids=["whole", "cut", "noise"])
def test_a_guest_that_dies_is_quoted_and_its_samples_are_kept(bench: Bench, last: list[bytes]) -> None:
    with pytest.raises(RunError, match=re.escape("early: \n  | booting\n  | Kernel panic")):
        bench.hear(Hello("6.1"), Measured(LOGGED), *last)
    assert len(bench.store.get(SESSION.id).samples) == 1


@pytest.mark.parametrize(
    "bad", [b'\n["measured", {"sample": 1}]\n', b'\n["later", {}]\n'], ids=["malformed", "unknown"]
)
def test_a_message_that_is_not_understood_ends_it(bench: Bench, bad: bytes) -> None:
    with pytest.raises(UnreadableError):
        bench.hear(Measured(LOGGED), bad, Done(END))
    assert len(bench.store.get(SESSION.id).samples) == 1


def test_an_error_of_the_guests_is_raised_here(bench: Bench) -> None:
    with pytest.raises(UsageError, match="ran on kernel 5") as found:
        bench.hear(Hello("6.1"), Failed.by(UsageError("ran on kernel 5", "start a new one")))
    assert found.value.hint == "start a new one"


def test_where_the_guest_knows_no_fix_its_console_is_named(bench: Bench) -> None:
    with pytest.raises(RunError, match="broke off in the guest") as found:
        bench.hear(Hello("6.1"), Failed.by(RunError("the session broke off in the guest: KeyError('x')")))
    assert found.value.hint == f"see its console: {bench.console}"


def test_a_guest_that_says_nothing_is_not_waited_for_for_ever(bench: Bench) -> None:
    with pytest.raises(RunError, match="the guest has said nothing for 0 s, it hangs"):
        bench.listen("sleep", "600", patience=0)


def test_a_guest_that_falls_silent_hangs_and_its_samples_are_kept(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "said").write_bytes(encode_message(Hello("6.1")) + encode_message(Measured(LOGGED)))
    with pytest.raises(RunError, match="the guest has said nothing for 1 s, it hangs"):
        bench.listen("sh", "-c", f"cat {tmp_path}/said; sleep 600", patience=1)
    assert len(bench.store.get(SESSION.id).samples) == 1
