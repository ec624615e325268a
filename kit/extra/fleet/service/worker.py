"""A machine's worker: a Dask worker with the kit's part, which accepts one share at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kit.core.codec import encode
from kit.core.errors import MachineError, causes_of
from kit.extra.fleet.address import Address
from kit.extra.fleet.handshake import AbsentError, greet
from kit.extra.fleet.service.event_loop import serve
from kit.extra.fleet.service.share_runner import NEXT, ShareRunner
from kit.extra.fleet.settings import PAGES, SILENCE, prepare
from kit.model.event import Event, PhaseStarted, RunsAdded, RunsPlanned, SampleTaken
from kit.model.machine import Progress
from kit.session.wire.messages import encode_message

if TYPE_CHECKING:
    from distributed import Worker, WorkerPlugin
    from distributed.security import Security

#: The worker's attributes for the kit's part, and for its machine's description.
PLUGIN = DESCRIPTION = "kit"
#: Seconds between two attempts to reach a scheduler.
_AGAIN = 1.0
#: The key of the shares' progress in each heartbeat.
PROGRESS = "kit"


def plugin(runner: ShareRunner) -> WorkerPlugin:
    """The kit's part of a Dask worker."""
    from distributed import WorkerPlugin

    class Sessions(WorkerPlugin):
        name = PLUGIN

        def __init__(self) -> None:
            self.runner = runner
            self.counts: dict[str, _Count] = {}

        def setup(self, worker: Worker) -> None:
            worker.startup_information[DESCRIPTION] = lambda worker: encode(runner.member)
            worker.metrics[PROGRESS] = lambda worker: {key: count.told() for key, count in list(self.counts.items())}

        def teardown(self, worker: Worker) -> None:
            runner.interrupt()

        def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
            if start == "executing" and finish in ("released", "forgotten"):
                runner.interrupt(str(key))

    return Sessions()


def run_share(text: str, topic: str) -> str:
    """Run the task that the scheduler gives to a worker, as the share runner does. Its messages go to the subscribers
    of the topic."""
    from distributed import get_worker

    worker = get_worker()
    if PLUGIN not in worker.plugins:
        raise RuntimeError(
            "not a worker of the kit: start it with kit fleet worker, or with --preload kit.extra.fleet.service.preload"
        )
    share_plugin: Any = worker.plugins[PLUGIN]
    key = str(worker.get_current_task())
    count = share_plugin.counts[key] = _Count()

    def say(event: Event) -> None:
        worker.log_event(topic, {"key": key, "line": encode_message(event).decode()})
        count.add(event)

    try:
        return str(share_plugin.runner.carry(key, text, say))
    finally:
        del share_plugin.counts[key]


@dataclass
class _Count:
    """The progress of a share's runs. ``began``: when the first run began, after all preparations."""

    began: float | None = None
    ended: float = 0.0
    runs: int = 0
    done: int = 0

    def add(self, event: Event) -> None:
        match event:
            case RunsPlanned():
                self.began, self.runs = None, event.runs
            case PhaseStarted():
                self.began = self.began or time.monotonic()
            case RunsAdded():
                self.runs = max(self.runs, self.done + event.runs)
            case SampleTaken(earlier=False):
                self.done += 1
                self.ended = time.monotonic()

    def told(self) -> dict[str, Any] | None:
        """Return the progress; None while the machine prepares."""
        return encode(Progress(self.done, self.runs, self.left)) if self.runs else None

    @property
    def left(self) -> float | None:
        """Return the remaining seconds; None before the first run is over."""
        if self.began is None or not self.done:
            return None
        remaining = (self.ended - self.began) / self.done * max(0, self.runs - self.done)
        return max(0.0, remaining - (time.monotonic() - self.ended))


def run_worker(address: Address, runner: ShareRunner, tell: Callable[[str], None]) -> None:
    """Serve until interrupted. If the scheduler is missing or lost, wait for one at that address. Raises MachineError
    if they refuse each other at the first time."""
    prepare()
    from distributed import Worker

    wait = _Wait(address, tell)
    tls_settings = wait.for_scheduler()
    host = None if address.tls else "127.0.0.1"  # without TLS no other machine may connect

    async def make() -> Worker:
        worker = Worker(
            address.url,
            nthreads=1,
            name=runner.member.name,
            resources={"machine": 1},
            security=tls_settings,
            dashboard_address=PAGES,
            memory_limit=0,
            plugins=(plugin(runner),),
            host=host,
        )
        try:
            await worker
        except (OSError, ValueError, RuntimeError) as error:
            raise _refused(address, runner.member.name, error) from None
        return worker

    def ready(worker: object) -> None:
        wait.known = True
        wait.say(f"{runner.member.name} works for {address.url}: {NEXT}")

    while True:
        try:
            if serve(make, ready):
                return
            wait.say(f"the scheduler at {address.url} is gone")
        except MachineError as error:
            if not wait.known:
                raise
            wait.say(f"{error.message}; tries again")
            time.sleep(_AGAIN)
        wait.for_scheduler()


def _refused(address: Address, name: str, error: BaseException) -> MachineError:
    first = causes_of(error)[-1]
    if "name taken" in str(first):
        return MachineError(
            f"the fleet of {address.url} has a machine that is called {name}",
            f"use --name NAME; a machine that was switched off stays listed for {SILENCE} s at most",
        )
    return MachineError(f"no worker for {address.url}: {first}", "list the machines with kit fleet status")


@dataclass
class _Wait:
    """``known``: the scheduler has accepted this worker once. Later obstacles are temporary: a partial network, or a
    scheduler that has not noticed the worker's absence."""

    address: Address
    tell: Callable[[str], None]
    known: bool = False
    _said: str = ""

    def say(self, text: str) -> None:
        """Report a text once, until it changes."""
        if text != self._said:
            self.tell(text)
        self._said = text

    def for_scheduler(self) -> Security | None:
        while True:
            try:
                return greet(self.address, "worker")
            except MachineError as error:
                if not self.known and not isinstance(error, AbsentError):
                    raise
                self.say(f"{error.message}; waits for it")
                time.sleep(_AGAIN)
