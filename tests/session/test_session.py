"""The order of a session's steps, with a fake engine; everything else of a session is tested for real."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, cast

import pytest

from kit.core.errors import RunError, TimedOut
from kit.core.limit import Deadline
from kit.core.paths import Paths
from kit.engines import Place, Setting
from kit.filesystem import Backing
from kit.host.journal import Journal
from kit.model.arm import Arm, parse_arms
from kit.model.plan import Plan, Step, make_plan
from kit.model.sample import Sample
from kit.model.scenario import Scenario
from kit.model.scenario import Step as Command
from kit.model.session import Request, Session
from kit.probe import Probe, Timing, probe_binary
from kit.session.inputs import PreparedInput
from kit.session.loop import Bench, Run, log_name, run_session
from kit.session.workload import Workload
from kit.store import Store, open_store

TIMING = Timing(0, None, 1.0, 0.5, 0.25, 1024, 1, 0, 2, 3)


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else this machine does meanwhile adds no sentence and no repeat: the order of steps is what is tested."""
    monkeypatch.setattr("kit.host.rest._busy_share", lambda length: 0.0)
    for module in ("loop", "schedule"):
        monkeypatch.setattr(f"kit.session.{module}.find_bursts", lambda samples: {})


class FakeEngine:
    """Places that note what is done to them. A command ``fail`` fails; the arm ``broken`` has no place; in the arm
    ``hanging``, or where the command has that name, nothing ends before its deadline; phases print ``flood`` bytes."""

    def __init__(self, directory: Path, broken: str = "", hanging: str = "", flood: int = 0) -> None:
        self.events: list[str] = []
        self.backing = Backing("fake", directory, "fake", "fake", "", None)
        self.broken = broken
        self.hanging = hanging
        self.clock = 0.0
        self.flood = flood

    @contextmanager
    def place(self, arm: Arm) -> Iterator[Place]:
        if str(arm) == self.broken:
            raise RunError("it is broken")
        self.events.append(f"place {arm}")
        probe = cast(Probe, FakeProbe(self, str(arm)))
        yield Place("/t", "/i", None, self.backing, probe, self.unpack, lambda: "", {})
        self.events.append(f"release {arm}")

    fresh_place = place

    def read_all(self) -> None:
        self.events.append("read all")

    def sync(self) -> None:
        self.events.append("sync")

    def unpack(self, tarball: Path) -> None:
        self.events.append(f"unpack {tarball.name}")


class FakeProbe:
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
        if argv[0] == "fail":
            output.write(b"one\ntwo\n")
            return replace(TIMING, exit_code=2)
        return TIMING


class Ears:
    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine

    def began(self, session: Session) -> None:
        pass

    def tell(self, text: str) -> None:
        self.engine.events.append(f"tell {text}")

    def planned(self, steps: int, done: int) -> None:
        self.engine.events.append(f"planned {steps} after {done}")

    def extended(self, steps: int, reason: str) -> None:
        self.engine.events.append(f"extended by {steps}: {reason}")

    def running(self, step: Step, phase: str) -> None:
        return None

    def finished(self, step: Step, sample: Sample) -> None:
        self.engine.events.append(f"stored {sample.arm} {sample.block} {sample.status}")


def scenario(*phases: str) -> Scenario:
    steps = tuple(Command(name, (name,)) for name in phases)
    return Scenario("s", "", "", steps, prepare=(Command("prepare", ("prepare",)),))


def perform(
    tmp_path: Path,
    engine: FakeEngine,
    plan: Plan,
    work: Scenario,
    samples: tuple[Sample, ...] = (),
    left: Callable[[], float | None] = lambda: None,
) -> tuple[Session, Store]:
    paths = Paths(tmp_path / "data", tmp_path / "cache", tmp_path / "state", tmp_path / "run", tmp_path / "lock")
    setting = Setting("x", tmp_path, probe_binary(tmp_path), Journal(tmp_path / "j" / "x.jsonl"), "none")
    store = open_store("", tmp_path / "kit.db")
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
    run = Run(plan, {"": workload}, engine, store, Bench(setting, paths), Ears(engine))
    return run_session(session, run, left), store


def test_order_of_steps(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path)
    plan = make_plan(parse_arms("bare,layer:overlay2"), rounds=1, seed=3)
    session, store = perform(tmp_path, engine, plan, scenario("one", "two"))
    expected = ["planned 4 after 0", "read all"]
    for step in (*plan.block(0), *plan.block(1)):
        expected += [f"place {step.arm}", "unpack src.tar", "run prepare", "sync", "run one", "run two"]
        expected += [f"release {step.arm}", f"stored {step.arm} {step.block} ok"]
    expected.insert(2 + 8 * 2, "sync")  # before the machine at rest is watched again, ahead of the second block
    assert engine.events == expected
    assert session.status == "done"
    assert [sample.kind for sample in store.get("x").samples] == ["warmup", "warmup", "measured", "measured"]
    sample = session.samples[-1]
    assert [phase.real for phase in sample.phases] == [1.0, 1.0]
    assert sample.calibration_before and sample.calibration_after and sample.engine_seconds
    assert dict(sample.digests).keys() == {"probe", "scenario", "input src"}


def test_a_failed_phase_ends_its_run_and_is_kept_with_its_last_lines(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path)
    plan = make_plan(parse_arms("bare"), rounds=1, seed=3, cache="cold")
    session, store = perform(tmp_path, engine, plan, scenario("one", "fail", "never"))
    assert "run never" not in engine.events and "release bare" in engine.events
    (sample,) = store.get("x").samples
    assert [(phase.name, phase.status) for phase in sample.phases] == [("one", "ok"), ("fail", "failed")]
    assert sample.error == "fail failed with exit status 2\n  | one\n  | two"
    assert Path(sample.log).read_text() == "one\ntwo\n"
    assert session.status == "failed"


def test_one_broken_arm_does_not_stop_the_others_and_is_not_retried(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path, broken="bare")
    plan = make_plan(parse_arms("bare,layer:overlay2"), rounds=2, seed=3, cache="cold")
    session, _ = perform(tmp_path, engine, plan, scenario("one"))
    assert session.status == "done"
    found = sorted(
        (sample.arm, sample.block, sample.status, sample.error) for sample in session.samples if not sample.repeats
    )
    assert found == [
        ("bare", 1, "failed", "it is broken"),
        ("bare", 2, "failed", "it is broken"),
        ("layer:overlay2", 1, "ok", ""),
        ("layer:overlay2", 2, "ok", ""),
    ]


def test_resume_runs_what_is_missing_in_the_same_order(tmp_path: Path) -> None:
    plan = make_plan(parse_arms("bare,layer:overlay2"), rounds=2, seed=3)
    measured = [*plan.block(1), *plan.block(2)]
    done = tuple(Sample(str(s.arm), s.block, "measured", "ok", 0.0, ()) for s in measured[:3])
    engine = FakeEngine(tmp_path)
    perform(tmp_path, engine, plan, scenario("one"), done)
    placed = [event for event in engine.events if event.startswith("place")]
    warm = [f"place {step.arm}" for step in plan.block(0)]
    assert placed == [*warm, f"place {measured[3].arm}"]
    assert engine.events[0] == "planned 3 after 3"


def test_engine_seconds_hold_no_workload_also_where_the_arm_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine(tmp_path)
    monkeypatch.setattr("kit.session.loop.time.monotonic", lambda: engine.clock)
    plan = make_plan(parse_arms("bare"), rounds=1, seed=3, cache="cold")
    session, _ = perform(tmp_path, engine, plan, scenario("die"))
    (sample,) = session.samples
    assert sample.error == "the arm died" and sample.engine_seconds == 0


def test_logs_of_long_points_have_names_that_files_can_have(tmp_path: Path) -> None:
    ends = ("1", "2")
    steps = [Step(1, parse_arms("bare")[0], "words=" + "ä" * 300 + end) for end in ends]
    for step in steps:
        (tmp_path / log_name(step)).touch()
    assert len(list(tmp_path.iterdir())) == len(ends)
    assert log_name(Step(1, steps[0].arm, "jobs=2")) == f"001-{steps[0].arm}-jobs=2.log"
