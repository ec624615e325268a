"""An arm's own time, which stands still while others have their turn."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from kit.core.limit import run_deadline
from kit.session.turns import OwnClock


class Moment:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Moment]:
    made = Moment()
    monkeypatch.setattr("kit.session.turns.time", SimpleNamespace(monotonic=made.monotonic))
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
