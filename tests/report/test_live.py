"""What a terminal shows of many machines."""

from __future__ import annotations

from itertools import count

import pytest

from kit.model.arm import parse_arm
from kit.model.plan import PlanStep
from kit.model.session import Session
from kit.report import progress


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


def begin(live: progress.Live, machine: str, block: int) -> None:
    live.machine(machine)
    live.running(PlanStep(block, parse_arm("bare"), "measured"), "run")


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


def test_the_ranking_is_not_made_anew_for_each_of_many_machines(
    live: progress.Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rankings(monkeypatch)
    for number in range(1, 101):
        begin(live, f"b{number}", number)
    assert 1 <= len(made) < 20


def test_alone_it_is_made_anew_after_every_round(live: progress.Live, monkeypatch: pytest.MonkeyPatch) -> None:
    made = rankings(monkeypatch)
    for number in range(1, 11):
        begin(live, "", number)
    assert len(made) == 9
