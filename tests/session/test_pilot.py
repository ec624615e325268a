"""The pilot run."""

from pathlib import Path

import pytest

from kit.arms.engines import EngineConfig
from kit.core.deadline import Deadline
from kit.core.paths import Paths
from kit.host.recovery.journal import Journal
from kit.model.arm import parse_arms
from kit.model.options import SessionOptions
from kit.model.plan import Plan, make_plan
from kit.session.inputs.input_cache import PreparedInput
from kit.session.measure.context import MachineLease, RunContext
from kit.session.measure.pilot import LONGEST_PILOT, Pilot, pilot_runs, was_ended
from kit.session.measure.workload import Workload
from kit.session.setup.cleanups import CLEANUPS
from tests.fake_engine import Ears, FakeEngine, scenario

DEADLINE = Deadline(100.0, "timed out")


@pytest.mark.parametrize(
    ("deadline", "timeout", "now", "expected"),
    [
        (DEADLINE, None, 100.1, True),
        (DEADLINE, 2 * LONGEST_PILOT, 100.1, True),
        (DEADLINE, None, 99.0, False),  # it ended by itself
        (DEADLINE, 5.0, 100.1, False),  # the user's own limit: it has failed
        (None, None, 100.1, False),
    ],
)
def test_a_pilot_run_that_is_ended_early_has_not_failed(
    deadline: Deadline | None, timeout: float | None, now: float, expected: bool
) -> None:
    assert was_ended(deadline, timeout, now) == expected


def pilots(tmp_path: Path, engine: FakeEngine, plan: Plan, *phases: str) -> list[Pilot]:
    paths = Paths(tmp_path / "data", tmp_path / "cache", tmp_path / "state", tmp_path / "run/kit", tmp_path / "lock")
    setting = EngineConfig("x", tmp_path, tmp_path / "spin", Journal(tmp_path / "j" / "x.jsonl", CLEANUPS), "none")
    workload = Workload(scenario(*phases), None, (PreparedInput("src", "tree", Path("/x/src.tar"), "d"),))
    workloads = dict.fromkeys(plan.points, workload)
    return pilot_runs(RunContext(plan, workloads, engine, Ears(engine), MachineLease(setting, paths)))


ARMS = parse_arms("bare,bind:overlay2,layer:overlay2")


@pytest.mark.usefixtures("calm")
def test_a_workload_that_fails_on_two_arms_is_run_on_no_other(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path)
    (pilot,) = pilots(tmp_path, engine, make_plan(ARMS, SessionOptions(rounds=3, seed=1)), "fail")
    assert [(item.arm, item.kind, item.status) for item in pilot.failures] == [
        ("bare", "warmup", "failed"), ("bind:overlay2", "warmup", "failed"),
    ]  # fmt: skip
    assert pilot.failures[0].error == "fail failed with exit status 2\n  | one\n  | two"
    assert "place layer:overlay2" not in engine.events


@pytest.mark.usefixtures("calm")
def test_a_workload_that_fails_on_one_arm_alone_may_run_on_others(tmp_path: Path) -> None:
    (pilot,) = pilots(
        tmp_path, FakeEngine(tmp_path, stuck="bare"), make_plan(ARMS, SessionOptions(rounds=3, seed=1)), "one"
    )
    assert pilot.error and not pilot.failures


@pytest.mark.usefixtures("calm")
def test_a_workload_that_fails_at_one_point_may_run_at_others(tmp_path: Path) -> None:
    (pilot,) = pilots(
        tmp_path,
        FakeEngine(tmp_path),
        make_plan(ARMS, SessionOptions(rounds=3, seed=1), points=("jobs=1", "jobs=2")),
        "fail",
    )
    assert pilot.error and not pilot.failures


@pytest.mark.usefixtures("calm")
def test_a_workload_without_another_arm_fails_on_one(tmp_path: Path) -> None:
    (pilot,) = pilots(tmp_path, FakeEngine(tmp_path), make_plan(ARMS[:1], SessionOptions(rounds=3, seed=1)), "fail")
    assert [item.arm for item in pilot.failures] == ["bare"]
