"""A session on an engine that runs nothing: places, a probe and an observer that note what is done to them."""

import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import IO, cast

import pytest

from kit.arms.engines import EngineConfig, Sandbox
from kit.arms.filesystem import Backing
from kit.arms.probe import Probe, Timing
from kit.core.deadline import Deadline
from kit.core.errors import RunError, TimedOut
from kit.core.paths import Paths
from kit.host.cgroup.cgroup import UNIFIED, Cgroup
from kit.host.recovery.journal import Journal
from kit.model.arm import Arm
from kit.model.event import Event, EventSink, Relay, RunsAdded, RunsPlanned, SampleTaken, Told
from kit.model.plan import Plan
from kit.model.sample import Sample
from kit.model.scenario import Command, Scenario
from kit.model.session import Request, Session
from kit.session.execute.session_loop import run_rounds
from kit.session.inputs.input_cache import PreparedInput
from kit.session.measure.context import MachineLease, RunContext
from kit.session.measure.workload import Workload
from kit.session.setup.cleanups import CLEANUPS
from kit.store import Store
from tests.sinks import Stored
from tests.stores import new_store

TIMING = Timing(0, None, 1.0, 0.5, 0.25, 1024, 1, 0, 2, 3, 4096, math.inf)


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else this machine does meanwhile adds no sentence and no repeat: the order of steps is what is tested. Nor
    do others lose their caches by it, or wait for the disk."""
    monkeypatch.setattr("kit.host.cgroup.idle_load._busy_share", lambda length: 0.0)
    monkeypatch.setattr("kit.session.setup.caches.DROP_CACHES", Path(os.devnull))
    monkeypatch.setattr("kit.arms.filesystem.backing.sync_filesystem", lambda path: None)
    for module in ("execute.session_loop", "plan.schedule"):
        monkeypatch.setattr(f"kit.session.{module}.find_bursts", lambda samples: {})


class FakeEngine:
    """Places that note what is done to them. A command ``fail`` fails, ``say`` prints its word; the arm ``broken`` has
    no place, ``stuck`` can't be released; in the arm ``hanging``, or where the command has that name, nothing ends
    before its deadline; phases print ``flood`` bytes."""

    def __init__(self, directory: Path, broken: str = "", hanging: str = "", flood: int = 0, stuck: str = "") -> None:
        self.events: list[str] = []
        self.backing = Backing("fake", directory, "fake", "fake", "", None)
        self.broken = broken
        self.hanging = hanging
        self.clock = 0.0
        self.flood = flood
        self.stuck = stuck
        self.slow: dict[str, int] = {}  # turns that a command of an arm takes by turns, if not one

    @contextmanager
    def sandbox(self, arm: Arm, copies: int = 1) -> Iterator[Sandbox]:
        if str(arm) == self.broken:
            raise RunError("it is broken")
        self.events.append(f"place {arm}")
        probe = cast(Probe, FakeProbe(self, str(arm)))
        group = Cgroup({UNIFIED: self.group(str(arm))})
        try:
            yield Sandbox("/t", "/i", group, self.backing, probe, self.unpack, lambda: "", {})
        finally:
            self.events.append(f"release {arm}")
            if str(arm) == self.stuck:
                raise RunError("it can't be removed")

    fresh_sandbox = sandbox

    def group(self, arm: str) -> Path:
        """A control group's directory that says to be frozen whenever it is asked."""
        path = self.backing.path / "groups" / arm
        path.mkdir(parents=True, exist_ok=True)
        (path / "cgroup.freeze").write_text("0")
        (path / "cgroup.events").write_text("populated 1\nfrozen 1\n")
        return path

    @property
    def thawed(self) -> list[str]:
        """Arms that may run now."""
        groups = sorted((self.backing.path / "groups").iterdir())
        return [path.name for path in groups if (path / "cgroup.freeze").read_text() == "0"]

    def read_anew(self, order: random.Random) -> None:
        self.events.append("read anew")

    def read_all(self) -> None:
        self.events.append("read all")

    def sync(self, but: Backing | None = None) -> None:
        self.events.append("sync")

    def unpack(self, tarball: Path) -> None:
        self.events.append(f"unpack {tarball.name}")


class FakeProbe:
    command: Sequence[str]
    output: IO[bytes]
    left: int  # turns
    ran = True
    aside = staticmethod(nullcontext)

    def __init__(self, engine: FakeEngine, arm: str) -> None:
        self.engine = engine
        self.arm = arm

    def run(self, argv: Sequence[str], *, output: IO[bytes], deadline: Deadline | None, **rest: object) -> Timing:
        self.engine.events.append(f"run {argv[0]}")
        if self.engine.hanging == argv[0] or (self.engine.hanging == self.arm and argv[0] != "prepare"):
            output.write(b"begun\n")
            assert deadline
            self.engine.events.append("killed")
            raise TimedOut(deadline.text)
        if self.engine.flood:
            output.write(b"prepared\n")
            output.truncate(output.tell() if argv[0] == "prepare" else self.engine.flood)
        if argv[0] == "die":
            self.engine.clock += 1000
            raise RunError("the arm died")
        if argv[0] == "say":
            output.write(argv[1].encode())
        if argv[0] == "fail":
            output.write(b"one\ntwo\n")
            return replace(TIMING, exit_code=2)
        return TIMING

    def start(self, argv: Sequence[str], *, output: IO[bytes], **rest: object) -> None:
        self.engine.events.append(f"ask {self.arm} for {argv[0]}")
        self.command, self.output, self.left = argv, output, self.engine.slow.get(self.arm, 1)

    def answers(self, patience: float) -> bool:
        assert self.engine.thawed == [self.arm]
        self.engine.events.append(f"turn of {self.arm}")
        self.left -= 1
        return not self.left

    def timing(self, alive: Callable[[], str]) -> Timing:
        return self.run(self.command, output=self.output, deadline=None)


class Ears(EventSink):
    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine

    def take(self, event: Event) -> None:
        match event:
            case Told():
                self.engine.events.append(f"tell {event.text}")
            case RunsPlanned():
                self.engine.events.append(f"planned {event.runs} after {event.done}")
            case RunsAdded():
                self.engine.events.append(f"extended by {event.runs}: {event.reason}")
            case SampleTaken():
                sample = event.sample
                self.engine.events.append(f"stored {sample.arm} {sample.round} {sample.status}")


def scenario(*phases: str) -> Scenario:
    steps = tuple(Command(name, (name,)) for name in phases)
    return Scenario("s", "", "", steps, prepare=(Command("prepare", ("prepare",)),))


def execute(
    tmp_path: Path,
    engine: FakeEngine,
    plan: Plan,
    work: Scenario,
    samples: tuple[Sample, ...] = (),
    left: Callable[[], float | None] = lambda: None,
    traced: bool = False,
) -> tuple[Session, Store]:
    paths = Paths(tmp_path / "data", tmp_path / "cache", tmp_path / "state", tmp_path / "run/kit", tmp_path / "lock")
    spin = tmp_path / "spin"
    spin.write_text("#!/bin/sh\necho 50000000 60000000\n")
    spin.chmod(0o755)
    setting = EngineConfig("x", tmp_path, spin, Journal(tmp_path / "j" / "x.jsonl", CLEANUPS), "none")
    store = new_store(tmp_path / "kit.db")
    session = Session(
        "x",
        0.0,
        "0",
        "s",
        "running",
        Request(scenario="s"),
        tuple(map(str, plan.arms)),
        plan.baselines,
        1,
        samples=samples,
    )
    store.create(session)
    workload = Workload(work, None, (PreparedInput("src", "tree", Path("/x/src.tar"), "d"),))
    run = RunContext(
        plan, {"": workload}, engine, Relay(Stored(store, "x"), Ears(engine)), MachineLease(setting, paths)
    )
    session = run_rounds(session, run, left)
    if traced:
        from kit.extra.tracing.traced import traced_rounds  # tests of the core do without it

        session = traced_rounds(session, run)
    return session, store
