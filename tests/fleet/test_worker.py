"""How long a machine still needs for what it has."""

import time

import pytest

from kit.fleet.worker import _Count
from kit.model.arm import parse_arm
from kit.model.plan import PlanStep
from kit.session.guest_protocol import Finished, Planned, Running

STEP = PlanStep(1, parse_arm("bare"), "measured")


def test_making_ready_is_no_part_of_how_long_runs_take(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "time", lambda: now)
    count, told = _Count(), list[float | None]()
    for message in (Planned(12, 0), Running(STEP, "build"), Running(STEP, "clean"), Finished(STEP)):
        count.add(message)
        told.append(count.left)
        now += 600 if isinstance(message, Planned) else 5
    assert told == [None, None, None, 110.0]
