"""Traced rounds with a fake engine and a fake tracer: their order and place, and what is left of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kit.core.errors import RunError
from kit.extra.tracing import traced
from kit.model.arm import parse_arms
from kit.model.options import SessionOptions
from kit.model.plan import TRACED_ROUNDS, make_plan
from kit.model.sample import Call, Phase, Sample
from kit.session.measure.tracer import Level, Traced
from tests.fake_engine import FakeEngine, execute, scenario

pytestmark = pytest.mark.usefixtures("calm")
PLAN = make_plan(parse_arms("bare,layer:overlay2"), SessionOptions(rounds=1, seed=3, cache="cold", control=True))


class FakeTracer:
    def __init__(self, broken: bool = False) -> None:
        self.subjects: list[Traced] = []
        self.broken = broken

    @contextmanager
    def around(self, subject: Traced) -> Iterator["FakeTracer"]:
        self.subjects.append(subject)
        if self.broken:
            raise RunError("the verifier refused it")
        yield self

    def add_to(self, phase: Phase) -> Phase:
        return replace(phase, calls=(*phase.calls, Call("openat", len(self.subjects))))


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> FakeTracer:
    made = FakeTracer()
    monkeypatch.setattr(traced, "find_tracers", lambda session, run: ((made,), (Level("calls", True, ""),)))
    return made


def test_all_arms_but_the_control_after_the_measured_rounds(tmp_path: Path, tracer: FakeTracer) -> None:
    session, store = execute(tmp_path, FakeEngine(tmp_path), PLAN, scenario("one", "two"), traced=True)
    kinds = [sample.kind for sample in session.samples]
    assert kinds == ["measured"] * 3 + ["traced"] * 2 * TRACED_ROUNDS
    assert store.get("x").samples == session.samples
    calls = [[phase.calls for phase in sample.phases] for sample in session.samples]
    assert not any(any(listed) for listed in calls[:3]) and all(all(listed) for listed in calls[3:])
    assert [subject.phase for subject in tracer.subjects] == ["one", "two"] * 2 * TRACED_ROUNDS
    assert {(item.round, item.arm) for item in tracer.subjects} == {
        (number, arm) for number in (1, 2, 3) for arm in ("bare", "layer:overlay2")
    }


def test_a_resumed_session_makes_those_that_are_missing(tmp_path: Path, tracer: FakeTracer) -> None:
    measured = [Sample(str(step.arm), 1, "measured", "ok", 0.0, ()) for step in PLAN.round(1)]
    steps = [step for number in (1, 2, 3) for step in PLAN.traced_round(number)]
    before = [Sample(str(step.arm), step.round, "traced", "ok", 0.0, ()) for step in steps[:-1]]
    session, _ = execute(tmp_path, FakeEngine(tmp_path), PLAN, scenario("one"), (*measured, *before), traced=True)
    (last,) = tracer.subjects
    assert (last.arm, last.round) == (str(steps[-1].arm), steps[-1].round)
    assert session.samples[-1].kind == "traced"


def test_a_budget_is_not_spent_again_where_traced_rounds_go_on(tmp_path: Path, tracer: FakeTracer) -> None:
    plan = replace(PLAN, budget=600.0)
    measured = [Sample(str(step.arm), 1, "measured", "ok", 0.0, ()) for step in plan.round(1)]
    first = plan.traced_round(1)[0]
    before = (*measured, Sample(str(first.arm), 1, "traced", "ok", 0.0, ()))
    engine = FakeEngine(tmp_path)
    spent = iter([600.0] * 6)  # else it would go on for ever
    session, _ = execute(tmp_path, engine, plan, scenario("one"), before, lambda: next(spent, 0.0), traced=True)
    assert [sample.kind for sample in session.samples].count("measured") == len(measured)
    assert len(tracer.subjects) == 2 * TRACED_ROUNDS - 1 and session.status == "done"


def test_a_refused_program_fails_its_runs_and_ends_the_tracing_not_the_session(
    tmp_path: Path, tracer: FakeTracer
) -> None:
    tracer.broken = True
    engine = FakeEngine(tmp_path)
    session, _ = execute(tmp_path, engine, PLAN, scenario("one"), traced=True)
    failed = [sample.error for sample in session.samples if sample.kind == "traced"]
    assert failed == ["the verifier refused it"] * 2 and session.status == "done"
    assert "tell every traced run failed: the rest of them is skipped" in engine.events


def test_without_a_tracer_the_session_is_as_before_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = Level("calls", False, "bpftrace is not installed", "apt-get install bpftrace")
    monkeypatch.setattr(traced, "find_tracers", lambda session, run: ((), (lacking,)))
    engine = FakeEngine(tmp_path)
    session, _ = execute(tmp_path, engine, PLAN, scenario("one"), traced=True)
    assert [sample.kind for sample in session.samples] == ["measured"] * 3
    why = "bpftrace is not installed (fix: apt-get install bpftrace)"
    assert f"tell not traced: {why}" in engine.events and session.facts["not traced"] == why
