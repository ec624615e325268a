"""The order of a session's steps, with a fake engine; everything else of a session is tested for real."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from kit.analysis.runs.arm_runs import runs_by_point
from kit.analysis.runs.run_table import Runs
from kit.model.arm import parse_arms
from kit.model.fact import STOPPED
from kit.model.options import SessionOptions
from kit.model.plan import PlanStep, make_plan
from kit.model.sample import Sample
from kit.session.measure.phase_log import log_name
from tests.fake_engine import TIMING, FakeEngine, execute, scenario

pytestmark = pytest.mark.usefixtures("calm")


def test_order_of_steps(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path)
    plan = make_plan(parse_arms("bare,layer:overlay2"), SessionOptions(rounds=1, seed=3))
    session, store = execute(tmp_path, engine, plan, scenario("one", "two"))
    expected = ["planned 4 after 0", "sync", "read all"]
    for step in (*plan.round(0), *plan.round(1)):
        expected += [f"place {step.arm}", "unpack src.tar", "run prepare", "sync", "run one", "run two"]
        expected += [f"release {step.arm}", f"stored {step.arm} {step.round} ok"]
    expected.insert(3 + 8 * 2, "sync")  # before the machine at rest is watched again, ahead of the second round
    assert engine.events == expected
    assert session.status == "done"
    assert [sample.kind for sample in store.get("x").samples] == ["warmup", "warmup", "measured", "measured"]
    sample = session.samples[-1]
    assert [phase.real for phase in sample.phases] == [1.0, 1.0]
    assert sample.calibration_before and sample.calibration_after and sample.engine_seconds
    assert dict(sample.digests).keys() == {"probe", "scenario", "input src"}


def test_of_copies_the_time_per_copy_is_reported_whose_mean_gives_the_throughput(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two groups of two copies, in 10 s and in 30 s, are 360 copies an hour."""
    samples: list[Sample] = []
    for real in (10.0, 30.0):
        monkeypatch.setattr("tests.fake_engine.TIMING", replace(TIMING, real=real, copies=2, spread=1.0))
        plan = make_plan(parse_arms("bare"), SessionOptions(rounds=1, seed=3, cache="cold"))
        directory = tmp_path / str(real)
        directory.mkdir()
        session, _ = execute(directory, FakeEngine(directory), plan, scenario("one"))
        samples.append(replace(session.samples[0], round=len(samples) + 1))
    (point,) = runs_by_point(Runs(samples), ["bare"])
    assert list(point.reported("one")) == ["time per copy", "first copy's end to last's"]
    mean = point.arms[0].mean("one", "time per copy")
    assert mean and 3600 / mean == pytest.approx(360)


def test_a_failed_phase_ends_its_run_and_is_kept_with_its_last_lines(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path)
    plan = make_plan(parse_arms("bare"), SessionOptions(rounds=1, seed=3, cache="cold"))
    session, store = execute(tmp_path, engine, plan, scenario("one", "fail", "never"))
    assert "run never" not in engine.events and "release bare" in engine.events
    (sample,) = store.get("x").samples
    assert [(phase.name, phase.status) for phase in sample.phases] == [("one", "ok"), ("fail", "failed")]
    assert sample.error == "fail failed with exit status 2\n  | one\n  | two"
    assert Path(sample.log).read_text() == "one\ntwo\n"
    assert session.status == "failed"


def test_a_reporter_prints_the_tasks_after_the_phase_and_not_into_its_log(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path)
    plan = make_plan(parse_arms("bare"), SessionOptions(rounds=1, seed=3, cache="cold"))
    began = time.time()
    said = "".join(f"b/zip-3.0-r2/do_compile:{key}: {began + at}\n" for key, at in (("Started", 100), ("Ended", 102)))
    work = scenario("one", "two")
    one = replace(work.phases[0], report="buildstats", reporter=("say", said))
    _, store = execute(tmp_path, engine, plan, replace(work, phases=(one, work.phases[1])))
    (sample,) = store.get("x").samples
    ran = [event.removeprefix("run ") for event in engine.events if event.startswith("run ")]
    assert ran == ["prepare", "one", "say", "two"]
    (task,) = sample.phases[0].tasks
    assert (task.kind, task.recipe) == ("compile", "zip") and task.elapsed == pytest.approx(2.0)
    assert 80 < task.started <= 100 and not sample.phases[1].tasks
    assert Path(sample.log).read_text() == ""


def test_a_reporter_that_fails_fails_its_run(tmp_path: Path) -> None:
    plan = make_plan(parse_arms("bare"), SessionOptions(rounds=1, seed=3, cache="cold"))
    work = scenario("one")
    one = replace(work.phases[0], report="buildstats", reporter=("fail",))
    _, store = execute(tmp_path, FakeEngine(tmp_path), plan, replace(work, phases=(one,)))
    (sample,) = store.get("x").samples
    assert (sample.status, sample.error) == ("failed", "one: fail failed: two")


def test_one_broken_arm_does_not_stop_the_others_and_is_not_retried(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path, broken="bare")
    plan = make_plan(parse_arms("bare,layer:overlay2"), SessionOptions(rounds=2, seed=3, cache="cold"))
    session, _ = execute(tmp_path, engine, plan, scenario("one"))
    assert session.status == "done"
    found = sorted(
        (sample.arm, sample.round, sample.status, sample.error) for sample in session.samples if not sample.rerun_of
    )
    assert found == [
        ("bare", 1, "failed", "it is broken"),
        ("bare", 2, "failed", "it is broken"),
        ("layer:overlay2", 1, "ok", ""),
        ("layer:overlay2", 2, "ok", ""),
    ]


def test_an_arm_that_fails_each_time_is_named_once_and_run_no_more(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path, broken="bare")
    plan = make_plan(parse_arms("bare,layer:overlay2"), SessionOptions(rounds=5, seed=3, cache="cold", control=False))
    session, _ = execute(tmp_path, engine, plan, scenario("one"))
    assert session.status == "done"
    assert [sample.round for sample in session.samples if sample.arm == "bare"] == [1, 2]
    assert [sample.round for sample in session.samples if sample.arm == "layer:overlay2"] == [1, 2, 3, 4, 5]
    told = [event for event in engine.events if event.startswith("tell bare failed")]
    assert told == ["tell bare failed 2 times in the same way and is run no more: it is broken"]


def test_a_session_whose_arms_all_fail_says_why_it_ended(tmp_path: Path) -> None:
    plan = make_plan(parse_arms("bare,layer:overlay2"), SessionOptions(rounds=5, seed=3, control=False))
    session, _ = execute(tmp_path, FakeEngine(tmp_path), plan, scenario("fail"))
    assert (session.status, len(session.samples)) == ("failed", 2)
    assert STOPPED.text(session.facts) == "every arm failed"


def test_an_arm_that_can_not_be_released_has_failed_and_does_not_stop_the_others(tmp_path: Path) -> None:
    plan = make_plan(parse_arms("bare,layer:overlay2"), SessionOptions(rounds=2, seed=3, cache="cold"))
    session, store = execute(tmp_path, FakeEngine(tmp_path, stuck="bare"), plan, scenario("one"))
    assert session.status == "done"
    found = {(sample.arm, sample.status, sample.error) for sample in store.get("x").samples}
    assert found == {("bare", "failed", "it can't be removed"), ("layer:overlay2", "ok", "")}


def test_a_run_that_failed_and_can_not_be_released_says_both(tmp_path: Path) -> None:
    plan = make_plan(parse_arms("bare"), SessionOptions(rounds=1, seed=3, cache="cold"))
    session, _ = execute(tmp_path, FakeEngine(tmp_path, stuck="bare"), plan, scenario("fail"))
    (sample,) = session.samples
    assert sample.error == "fail failed with exit status 2\n  | one\n  | two\nit can't be removed"


def test_resume_runs_what_is_missing_in_the_same_order(tmp_path: Path) -> None:
    plan = make_plan(parse_arms("bare,layer:overlay2"), SessionOptions(rounds=2, seed=3))
    measured = [*plan.round(1), *plan.round(2)]
    done = tuple(Sample(str(s.arm), s.round, "measured", "ok", 0.0, ()) for s in measured[:3])
    engine = FakeEngine(tmp_path)
    execute(tmp_path, engine, plan, scenario("one"), done)
    placed = [event for event in engine.events if event.startswith("place")]
    warm = [f"place {step.arm}" for step in plan.round(0)]
    assert placed == [*warm, f"place {measured[3].arm}"]
    assert engine.events[0] == "planned 3 after 3"


def test_engine_seconds_hold_no_workload_also_where_the_arm_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine(tmp_path)
    monkeypatch.setattr("kit.session.execute.session_loop.time.monotonic", lambda: engine.clock)
    plan = make_plan(parse_arms("bare"), SessionOptions(rounds=1, seed=3, cache="cold"))
    session, _ = execute(tmp_path, engine, plan, scenario("die"))
    (sample,) = session.samples
    assert sample.error == "the arm died" and sample.engine_seconds == 0


def test_logs_of_long_points_have_names_that_files_can_have(tmp_path: Path) -> None:
    ends = ("1", "2")
    steps = [PlanStep(1, parse_arms("bare")[0], "words=" + "ä" * 300 + end) for end in ends]
    for step in steps:
        (tmp_path / log_name(step)).touch()
    assert len(list(tmp_path.iterdir())) == len(ends)
    assert log_name(PlanStep(1, steps[0].arm, "jobs=2")) == f"001-{steps[0].arm}-jobs=2.log"
