"""An arm's own time, which stands still while others have their turn."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from kit.core.limit import run_deadline
from kit.engines import Place
from kit.host.counters import Counters, read_counters
from kit.host.freezer import Freezer
from kit.session.interleave import OwnClock, Underway


class Moment:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Moment]:
    made = Moment()
    monkeypatch.setattr("kit.session.interleave.time", SimpleNamespace(monotonic=made.monotonic))
    yield made


def test_a_timeout_is_of_the_time_in_which_the_arm_itself_runs(moment: Moment) -> None:
    clock = OwnClock(run_deadline(moment.now, 10.0, None, 0.0), stopped=moment.now)
    for _ in range(4):
        moment.now += 100.0
        assert clock.go() == 100.0
        moment.now += 2.0
        assert clock.over() == ""
        clock.stop()
    moment.now += 100.0
    clock.go()
    moment.now += 2.0
    assert clock.over() == "timed out after 10s, the limit set by timeout"


def test_the_budget_ends_whosever_time_it_is(moment: Moment) -> None:
    until = run_deadline(moment.now, None, 50.0, 0.0)
    clock = OwnClock(run_deadline(moment.now, 60.0, None, 0.0), until, stopped=moment.now)
    moment.now += 49.0
    clock.go()
    assert clock.over() == ""
    moment.now += 1.0
    assert clock.over() == "timed out after 50s: the budget is over"


def written(size: float | None) -> Counters:
    return replace(read_counters(None, None), write_bytes=size)


def test_what_is_written_back_until_it_flushes_is_counted_once() -> None:
    underway = Underway(cast(Place, None), cast(Freezer, None))
    underway.note_rest(written(10.0))  # before its first turn: nothing of it was there
    assert underway.frozen_bytes == 0.0
    underway._last = written(50.0)
    underway.note_rest(written(58.0))
    underway.note_rest(written(58.0))
    assert underway.frozen_bytes == 8.0
    underway.note_rest(written(None))
    assert underway.frozen_bytes is None
