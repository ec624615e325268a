"""Tests of interleaved arms: one runs at a time, phases keep in step, each arm is measured in its own slices."""

from dataclasses import replace
from pathlib import Path

import pytest

from kit.arms.engines import Sandbox
from kit.host.cgroup.counters import Counters, read_counters
from kit.model.arm import parse_arms
from kit.model.options import SessionOptions
from kit.model.plan import make_plan
from tests.fake_engine import FakeEngine, execute, scenario

pytestmark = pytest.mark.usefixtures("calm")


def one_round(tmp_path: Path, engine: FakeEngine, *phases: str) -> list[str]:
    plan = make_plan(
        parse_arms("bare,layer:overlay2"),
        SessionOptions(rounds=1, seed=3, cache="cold", control=False, interleave="0.5s"),
    )
    execute(tmp_path, engine, plan, scenario(*phases))
    return engine.events


def test_phases_go_in_step_and_all_are_placed_before_any_runs(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path)
    events = one_round(tmp_path, engine, "one", "two")
    begun = [event for event in events if event.startswith(("place", "ask", "release"))]
    assert [event.split()[0] for event in begun] == ["place"] * 2 + ["ask"] * 4 + ["release"] * 2
    assert [event.split()[-1] for event in begun[2:6]] == ["one", "one", "two", "two"]


def test_who_has_ended_has_no_more_slices(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path)
    engine.slow = {"bare": 2, "layer:overlay2": 7}
    turns = [event for event in one_round(tmp_path, engine, "one") if event.startswith("turn")]
    assert turns.count("turn of bare") == 2 and turns.count("turn of layer:overlay2") == 7
    assert set(turns[-4:]) == {"turn of layer:overlay2"}


def test_a_failure_leaves_the_others_their_slices(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path, broken="layer:overlay2")
    plan = make_plan(
        parse_arms("bare,layer:overlay2"),
        SessionOptions(rounds=1, seed=3, cache="cold", control=False, interleave="0.5s"),
    )
    session, _ = execute(tmp_path, engine, plan, scenario("one", "fail", "never"))
    found = {sample.arm: sample for sample in session.samples}
    assert found["layer:overlay2"].error == "it is broken" and not found["layer:overlay2"].phases
    assert [phase.status for phase in found["bare"].phases] == ["ok", "failed"]
    assert found["bare"].error == "fail failed with exit status 2\n  | one\n  | two"
    assert engine.thawed == ["bare"]


def test_samples_say_that_they_are_interleaved(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path)
    engine.slow = {"bare": 3, "layer:overlay2": 5}
    plan = make_plan(
        parse_arms("bare,layer:overlay2"),
        SessionOptions(rounds=1, seed=3, cache="cold", control=False, interleave="0.5s"),
    )
    session, _ = execute(tmp_path, engine, plan, scenario("one"))
    found = {sample.arm: sample for sample in session.samples}
    assert {dict(sample.digests)["run order"] for sample in found.values()} == {"interleaved"}
    assert found["bare"].phases[0].slices == 3


def test_what_is_written_while_others_have_their_last_slices_is_in_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine(tmp_path)
    engine.slow = {"layer:overlay2": 3}

    def counters(sandbox: Sandbox) -> Counters:
        others = sum(event == "turn of layer:overlay2" for event in engine.events)
        return replace(read_counters(None, None), write_bytes=1000.0 * others)

    for module in ("interleave", "phase"):
        monkeypatch.setattr(f"kit.session.measure.{module}.counters_of", counters)
    plan = make_plan(
        parse_arms("bare,layer:overlay2"),
        SessionOptions(rounds=1, seed=3, cache="cold", control=False, interleave="0.5s"),
    )
    session, _ = execute(tmp_path, engine, plan, scenario("one"))
    bare = next(sample.phases[0] for sample in session.samples if sample.arm == "bare")
    assert bare.frozen_write_bytes is not None and bare.frozen_write_bytes >= 2000.0
    assert bare.write_bytes == bare.frozen_write_bytes


def test_space_that_write_back_takes_while_an_arm_is_frozen_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filesystem may allocate space as it writes back, and it does so in the slices of other arms."""
    engine = FakeEngine(tmp_path)
    engine.slow = {"bare": 3, "layer:overlay2": 6}

    def counters(sandbox: Sandbox) -> Counters:
        """Of bare: each slice of the other arm adds 150 MB and 2 inodes, and nothing else does."""
        others = sum(event == "turn of layer:overlay2" for event in engine.events)
        return replace(read_counters(None, None), space=100e6 + 150e6 * others, inodes=7.0 + 2.0 * others)

    for module in ("interleave", "phase"):
        monkeypatch.setattr(f"kit.session.measure.{module}.counters_of", counters)
    plan = make_plan(
        parse_arms("bare,layer:overlay2"),
        SessionOptions(rounds=1, seed=3, cache="cold", control=False, interleave="0.5s"),
    )
    session, _ = execute(tmp_path, engine, plan, scenario("one"))
    bare = next(sample.phases[0] for sample in session.samples if sample.arm == "bare")
    later = engine.events[engine.events.index("turn of bare") :].count("turn of layer:overlay2")
    assert later >= 5 and (bare.space, bare.inodes) == (150e6 * later, 2.0 * later)


def test_all_roots_are_read_before_each_round_without_a_warm_up(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path)
    plan = make_plan(
        parse_arms("bare,layer:overlay2"),
        SessionOptions(rounds=2, seed=3, cache="warm", control=False, interleave="0.5s"),
    )
    execute(tmp_path, engine, plan, scenario("one"))
    events = [event.split()[0] for event in engine.events if event.startswith(("read", "place"))]
    assert events == ["read", "place", "place"] * 2


def test_work_of_the_machine_is_charged_to_the_arm_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine(tmp_path)
    engine.slow = {"bare": 2, "layer:overlay2": 5}
    cost = {"bare": 1.0, "layer:overlay2": 10.0}

    def counters(sandbox: Sandbox) -> Counters:
        """As many seconds of CPU outside any arm in each turn as its arm says."""
        spent = sum(cost[event.removeprefix("turn of ")] for event in engine.events if event.startswith("turn"))
        zero = dict.fromkeys(("clock", "own_cpu", "cgroup_user", "cgroup_sys", "beside_cpu"), 0.0)
        return replace(read_counters(None, None), machine_cpu=spent, **zero)

    for module in ("interleave", "phase"):
        monkeypatch.setattr(f"kit.session.measure.{module}.counters_of", counters)
    plan = make_plan(
        parse_arms("bare,layer:overlay2"),
        SessionOptions(rounds=1, seed=3, cache="cold", control=False, interleave="0.5s"),
    )
    session, _ = execute(tmp_path, engine, plan, scenario("one"))
    found = {sample.arm: sample.phases[0].outside for sample in session.samples}
    assert found == {"bare": 2.0, "layer:overlay2": 50.0}
