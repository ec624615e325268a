"""Tests of an arm's own clock, which stops during the slices of others."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from kit.arms.engines import Sandbox
from kit.arms.probe import Timing
from kit.core.deadline import run_deadline
from kit.host.cgroup.counters import Counters, read_counters
from kit.host.cgroup.freezer import Freezer
from kit.session.measure.interleave import OwnClock, Underway
from tests.fake_engine import TIMING


class Moment:
    """A clock that advances on request."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Moment]:
    made = Moment()
    monkeypatch.setattr("kit.session.measure.interleave.time", SimpleNamespace(monotonic=made.monotonic))
    yield made


def test_a_timeout_is_of_the_time_in_which_the_arm_itself_runs(moment: Moment) -> None:
    clock = OwnClock(run_deadline(moment.now, 10.0, None, 0.0), stopped=moment.now)
    for _ in range(4):
        moment.now += 100.0
        assert clock.go() == (moment.now - 100.0, moment.now)
        moment.now += 2.0
        assert clock.over() == ""
        clock.stop()
    moment.now += 100.0
    clock.go()
    moment.now += 2.0
    assert clock.over() == "timed out after 10 s, the limit set by timeout"


def test_the_budget_ends_whosever_time_it_is(moment: Moment) -> None:
    until = run_deadline(moment.now, None, 50.0, 0.0)
    clock = OwnClock(run_deadline(moment.now, 60.0, None, 0.0), until, stopped=moment.now)
    moment.now += 49.0
    clock.go()
    assert clock.over() == ""
    moment.now += 1.0
    assert clock.over() == "timed out after 50 s: the budget is over"


def written(size: float | None) -> Counters:
    return replace(read_counters(None, None), write_bytes=size)


def test_what_is_written_back_until_it_flushes_is_counted_once() -> None:
    underway = Underway(cast(Sandbox, None), cast(Freezer, None), timing=TIMING, spent=written(30.0))
    underway._first, underway._last = written(20.0), written(50.0)
    underway.note_rest(written(58.0))
    underway.note_rest(written(58.0))
    assert (underway.work.spent.write_bytes, underway.work.frozen_write_bytes) == (38.0, 8.0)
    underway.note_rest(written(None))
    assert (underway.work.spent.write_bytes, underway.work.frozen_write_bytes) == (None, None)


@pytest.mark.parametrize(("ends_in_freeze", "frozen_for"), [(True, 0.0), (False, 100.0)])
def test_a_freeze_after_the_commands_end_is_not_subtracted(
    moment: Moment, monkeypatch: pytest.MonkeyPatch, ends_in_freeze: bool, frozen_for: float
) -> None:
    """The kit reads the answer in the next slice, also of a command that ended before its group was frozen."""
    monkeypatch.setattr(
        "kit.session.measure.interleave.time", SimpleNamespace(monotonic=moment.monotonic, time=lambda: 0.0)
    )
    monkeypatch.setattr("kit.session.measure.interleave.counters_of", lambda sandbox: written(0.0))
    monkeypatch.setattr("kit.session.measure.interleave.device_writes", lambda devices: 0.0)
    ended: list[float] = []

    def freeze() -> None:
        moment.now += 0.01
        if ends_in_freeze and not ended:
            ended.append(moment.now - 0.005)

    def timing(at: float) -> Timing:
        return replace(TIMING, real=300.0, ended=at, copies=2, spread=150.0)

    def answers(seconds: float) -> bool:
        moment.now += 1.0
        if not ends_in_freeze and len(command.rests):
            ended.append(moment.now)
        return bool(ended)

    probe = SimpleNamespace(answers=answers, timing=lambda dead: timing(ended[0]))
    sandbox = cast(Sandbox, SimpleNamespace(probe=probe, dead=lambda: "", end=lambda: None))
    freezer = cast(Freezer, SimpleNamespace(thaw=lambda: None, freeze=freeze))
    command = Underway(sandbox, freezer, OwnClock(stopped=moment.now))
    command.turn(1.0, ())
    moment.now += 100.0
    command.turn(1.0, ())
    assert command.work.timing.real == pytest.approx(300.0 - frozen_for)
    assert command.work.timing.spread == pytest.approx(150.0 - frozen_for)
    assert command.work.timing.voluntary_switches == (None if frozen_for else 2)  # each freeze adds some
