"""What a terminal shows of many machines."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from kit.model.arm import parse_arm
from kit.model.event import Event, FactsKnown, PhaseStarted, RunsPlanned, SampleTaken, SessionStarted
from kit.model.plan import PlanStep
from kit.model.session import Request, Session
from kit.report.text import progress
from tests.nights import ladder_session


class Clock:
    """Goes on by a second with each look."""

    def __init__(self) -> None:
        self._seconds = count()

    def monotonic(self) -> float:
        return float(next(self._seconds))


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> progress.Live:
    monkeypatch.setattr(progress, "time", Clock())
    made = progress.Live()
    made._region.stop()
    return made


def begin(live: progress.Live, machine: str, round_: int) -> None:
    live.machine(machine)
    live.take(PhaseStarted(PlanStep(round_, parse_arm("bare"), "measured"), "run"))


def rankings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The widths for which one was made."""
    made: list[int] = []

    def so_far(session: Session | None, width: int) -> str:
        made.append(width)
        return ""

    monkeypatch.setattr(progress, "so_far", so_far)
    return made


def test_of_many_machines_those_are_shown_that_began_a_run_last(live: progress.Live) -> None:
    for number in range(1, 101):
        begin(live, f"b{number}", number)
    begin(live, "b95", 101)
    begin(live, "b7", 102)
    shown = [task.description for task in live._bar.tasks]
    assert len(shown) == 1 + 10
    assert sorted(shown[1:])[-1].startswith("b99") and any(text.startswith("b7: round 102") for text in shown)
    assert any(text.startswith("b95") for text in shown) and not any(text.startswith("b91") for text in shown)


def test_the_ranking_is_not_computed_again_for_each_of_many_machines(
    live: progress.Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rankings(monkeypatch)
    for number in range(1, 101):
        begin(live, f"b{number}", number)
    assert 1 <= len(made) < 20


def test_of_one_machine_the_ranking_is_computed_after_every_round(
    live: progress.Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rankings(monkeypatch)
    for number in range(1, 11):
        begin(live, "", number)
    assert len(made) == 9


def test_a_run_of_an_earlier_start_is_ranked_but_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    lines, session = progress.Lines(), ladder_session()
    lines.take(SessionStarted(replace(session, samples=())))
    lines.take(RunsPlanned(1, 1))
    lines.take(SampleTaken(session.samples[0], earlier=True))
    lines.take(SampleTaken(session.samples[1]))
    assert lines.latest and lines.latest.samples == session.samples[:2]
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == ["1", "[1/1]"]


@pytest.mark.parametrize(("made", "planned"), [(2, 4), (4, 4)])
def test_the_last_line_says_how_many_runs_were_made_and_why_no_more(
    capsys: pytest.CaptureFixture[str], made: int, planned: int
) -> None:
    lines, session = progress.Lines(), ladder_session()
    earlier = FactsKnown({"stopped": "the budget is over"}, ())  # of an earlier start, which is resumed
    lines.take(SessionStarted(replace(session, samples=())))
    events: list[Event] = [RunsPlanned(planned, 0), earlier, *map(SampleTaken, session.samples[:made])]
    for event in events:
        lines.take(event)
    ended = FactsKnown({"stopped": "the budget is too short for round 2"}, ())
    lines.take(ended)
    lines.take(ended)
    *_, run, last = capsys.readouterr().err.splitlines()
    assert run.startswith(f"[{made}/{planned}]")
    runs = "2 of 4 planned" if made < planned else "4"
    assert last == f"measurement ended after {runs} runs: the budget is too short for round 2"


class Time:
    """``now`` is set by hand."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(progress, "time", made)
    return made


def step(round_: int, arm: str = "bare") -> PlanStep:
    return PlanStep(round_, parse_arm(arm))


ARMS = ("bare", "layer:overlay2", "layer:fuse-overlayfs")


def run_round(left: progress.TimeLeft, now: Time, round_: int, machine: str = "") -> None:
    """A round of 60 s, of which one arm takes 40."""
    for arm, seconds in zip(ARMS, (10, 10, 40), strict=True):
        left.running(machine, step(round_, arm))
        now.now += seconds
        left.finished(machine, step(round_, arm))


def test_time_left_is_that_of_whole_rounds(now: Time) -> None:
    """Slow and fast arms of a round do not move it, nor does a slow warm-up once a round is over."""
    left = progress.TimeLeft(None, False)
    left.running("", step(0))
    now.now += 500
    assert left.left(12) == ""
    left.finished("", step(0))
    run_round(left, now, 1)
    now.now += 5  # until the next one begins
    left.running("", step(2))
    assert left.left(6) == "about 2 min left"
    now.now += 10
    left.finished("", step(2))
    assert left.left(5) == "about 2 min left"
    run_round(left, now, 3)
    assert left.left(3) == "about 60 s left" and left.left(0) == ""


def test_an_open_session_has_a_certain_time_and_a_limit(now: Time) -> None:
    left = progress.TimeLeft(600.0, True)
    run_round(left, now, 1)
    left.running("", step(2))
    assert left.left(6) == "about 2 min left, 9 min at most"
    assert left.left(60) == "about 20 min left"  # the least rounds are run all the same
    run_round(left, now, 2)
    left.running("", step(3))
    assert left.left(0) == "8 min left at most"
    assert progress.TimeLeft(None, True).left(3) == ""


def test_machines_share_the_rounds_that_are_left(now: Time) -> None:
    left = progress.TimeLeft(None, False)
    for machine in ("b1", "b2", "b3", "b4"):
        left.running(machine, step(1))
    now.now = 100.0
    for machine in ("b1", "b2"):
        left.finished(machine, step(1))
        left.running(machine, step(2))
    assert left.left(48) == "about 20 min left"


def test_the_limit_is_the_budget_or_the_default_of_an_open_session() -> None:
    session = ladder_session()
    for request, wanted in (
        (Request(), (600.0, True)), (Request(rounds=5), (None, False)), (Request(rounds=5, budget=60.0), (60.0, True)),
        (Request(precision=0.01), (None, True)),
    ):  # fmt: skip
        assert progress._limits(replace(session, request=request)) == wanted
    assert progress._limits(None) == (None, False)
