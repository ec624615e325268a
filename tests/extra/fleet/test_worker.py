"""How long a machine still needs for what it has, and how seldom its worker wakes up."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from kit.core.codec import decode
from kit.extra.fleet.address import Address
from kit.extra.fleet.service.share_runner import ShareRunner
from kit.extra.fleet.service.worker import PLUGIN, PROGRESS, _Count, _refused, plugin, run_share
from kit.extra.fleet.settings import prepare
from kit.model.arm import parse_arm
from kit.model.event import Event, PhaseStarted, RunsPlanned, SampleTaken
from kit.model.machine import Progress
from kit.model.plan import PlanStep
from tests.extra.fleet.machines import ONE, sample

STEP = PlanStep(1, parse_arm("bare"), "measured")


def test_making_ready_is_no_part_of_how_long_runs_take(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    count, told = _Count(), list[float | None]()
    for message in (
        RunsPlanned(12, 0),
        PhaseStarted(STEP, "build"),
        PhaseStarted(STEP, "clean"),
        SampleTaken(sample(1)),
    ):
        count.add(message)
        told.append(count.left)
        now += 600 if isinstance(message, RunsPlanned) else 5
    assert told == [None, None, None, 110.0]
    assert count.left == 105.0
    now += 200
    assert count.left == 0.0


class RunnerThatLooks(ShareRunner):
    """Says what the worker's heartbeat would while it has a share."""

    def carry(self, key: str, text: str, say: Callable[[Event], None]) -> str:
        self.seen = [self.look()]
        for message in (RunsPlanned(12, 0), PhaseStarted(STEP, "build"), SampleTaken(sample(1))):
            say(message)
        self.seen.append(self.look())
        return "done"

    look: Callable[[], Any]


class DasksWorker:
    def __init__(self) -> None:
        self.metrics: dict[str, Any] = {}
        self.startup_information: dict[str, Any] = {}
        self.plugins: dict[str, Any] = {}

    def get_current_task(self) -> str:
        return "share 1"

    def log_event(self, topic: str, message: Any) -> None:
        return None


def test_how_far_a_share_is_goes_with_each_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said as events it was forgotten where others said a thousand more."""
    distributed = pytest.importorskip("distributed", reason="the package distributed is not installed")
    worker, runner = DasksWorker(), RunnerThatLooks(ONE)
    monkeypatch.setattr(distributed, "get_worker", lambda: worker)
    worker.plugins[PLUGIN] = sessions = plugin(runner)
    sessions.setup(cast(Any, worker))
    runner.look = lambda: worker.metrics[PROGRESS](worker)
    assert run_share("", "client") == "done"
    assert runner.seen[0] == {"share 1": None}
    assert decode(Progress, runner.seen[1]["share 1"]).runs == 12
    assert runner.look() == {}


def test_no_timer_wakes_a_process_beside_a_measurement_more_than_twice_a_second() -> None:
    distributed = pytest.importorskip("distributed", reason="the package distributed is not installed")
    prepare()

    async def timers() -> dict[str, float]:
        worker = distributed.Worker("tcp://127.0.0.1:1", nthreads=1, dashboard_address="127.0.0.1:0", memory_limit=0)
        return {name: timer.callback_time for name, timer in worker.periodic_callbacks.items()}

    found = asyncio.run(timers())
    assert {"heartbeat", "tick"} <= set(found)
    assert {name: milliseconds for name, milliseconds in found.items() if milliseconds < 500} == {}


def test_who_has_anothers_name_is_refused_with_the_reason() -> None:
    error = RuntimeError("Worker failed to start.")
    error.__cause__ = ValueError("Unexpected response from register: {'status': 'error', 'message': 'name taken, w1'}")
    refused = _refused(Address("127.0.0.1", 1), "w1", error)
    assert str(refused).startswith("the fleet of tcp://127.0.0.1:1 has a machine that is called w1")
    assert "Worker failed" in str(_refused(Address("127.0.0.1", 1), "w1", RuntimeError("Worker failed to start.")))
