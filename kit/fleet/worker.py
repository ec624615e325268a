"""A machine's worker: one of Dask's with the kit's part, which takes one share at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kit.core.codec import encode
from kit.core.errors import MachineError, causes_of
from kit.fleet.address import Address
from kit.fleet.carrier import Carrier
from kit.fleet.greeting import AbsentError, greet
from kit.fleet.scheduler import PAGES
from kit.fleet.serving import serve
from kit.fleet.settings import SILENCE, prepare
from kit.model.member import Progress
from kit.session.guest_protocol import Extended, Finished, Message, Planned, Running, encode_message

if TYPE_CHECKING:
    from distributed import Worker, WorkerPlugin
    from distributed.security import Security

#: As what the worker has the kit's part of it, and its machine's description.
PLUGIN = DESCRIPTION = "kit"
#: Seconds between two attempts to reach a scheduler.
_AGAIN = 1.0
#: Among what a worker says with each heartbeat: how far it is with its shares.
PROGRESS = "kit"


def plugin(carrier: Carrier) -> WorkerPlugin:
    """The kit's part of a worker of Dask's."""
    from distributed import WorkerPlugin

    class Sessions(WorkerPlugin):
        name = PLUGIN

        def __init__(self) -> None:
            self.carrier = carrier
            self.counts: dict[str, _Count] = {}

        def setup(self, worker: Worker) -> None:
            worker.startup_information[DESCRIPTION] = lambda worker: encode(carrier.member)
            worker.metrics[PROGRESS] = lambda worker: {key: count.told() for key, count in list(self.counts.items())}

        def teardown(self, worker: Worker) -> None:
            carrier.interrupt()

        def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
            if start == "executing" and finish in ("released", "forgotten"):
                carrier.interrupt(str(key))

    return Sessions()


def run_share(text: str, topic: str) -> str:
    """The task that the scheduler gives to a worker: what Carrier.carry does. What it says is told to who listens to
    the topic."""
    from distributed import get_worker

    worker = get_worker()
    if PLUGIN not in worker.plugins:
        raise RuntimeError("no worker of the kit's: start it by kit fleet worker, or with --preload kit.fleet.preload")
    mine: Any = worker.plugins[PLUGIN]
    key = str(worker.get_current_task())
    count = mine.counts[key] = _Count()

    def say(message: Message) -> None:
        worker.log_event(topic, {"key": key, "line": encode_message(message).decode()})
        count.add(message)

    try:
        return str(mine.carrier.carry(key, text, say))
    finally:
        del mine.counts[key]


@dataclass
class _Count:
    """Runs of a share. ``began``: when the first of them did, after all was made ready."""

    began: float | None = None
    ended: float = 0.0
    runs: int = 0
    done: int = 0

    def add(self, message: Message) -> None:
        match message:
            case Planned():
                self.began, self.runs = None, message.steps
            case Running():
                self.began = self.began or time.time()
            case Extended():
                self.runs = max(self.runs, self.done + message.steps)
            case Finished():
                self.done += 1
                self.ended = time.time()

    def told(self) -> dict[str, Any] | None:
        """A Progress; None while the machine makes ready."""
        return encode(Progress(self.done, self.runs, self.left)) if self.runs else None

    @property
    def left(self) -> float | None:
        """Seconds from now on; None before the first run is over."""
        if self.began is None or not self.done:
            return None
        rest = (self.ended - self.began) / self.done * max(0, self.runs - self.done)
        return max(0.0, rest - (time.time() - self.ended))


def run_worker(address: Address, carrier: Carrier, tell: Callable[[str], None]) -> None:
    """Until it is interrupted: where there is no scheduler, or it is lost, it waits for one at that address. Raises
    MachineError where they refuse each other at the first time."""
    prepare()
    from distributed import Worker

    wait = _Wait(address, tell)
    shown = wait.for_scheduler()
    own = None if address.tls else "127.0.0.1"  # without TLS nobody else may speak to it

    async def make() -> Worker:
        worker = Worker(
            address.url,
            nthreads=1,
            name=carrier.member.name,
            resources={"machine": 1},
            security=shown,
            dashboard_address=PAGES,
            memory_limit=0,
            plugins=(plugin(carrier),),
            host=own,
        )
        try:
            await worker
        except (OSError, ValueError, RuntimeError) as error:
            raise _refused(address, carrier.member.name, error) from None
        return worker

    def ready(worker: object) -> None:
        wait.known = True
        wait.say(f"{carrier.member.name} works for {address.url}")

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
            f"--name NAME; one that was switched off is there for {SILENCE} s at most",
        )
    return MachineError(f"no worker for {address.url}: {first}", "kit fleet status lists the machines")


@dataclass
class _Wait:
    """``known``: the scheduler has taken this worker once. What stands in the way later (a network that is half there,
    a scheduler that has not noticed that the worker was gone) passes."""

    address: Address
    tell: Callable[[str], None]
    known: bool = False
    _said: str = ""

    def say(self, text: str) -> None:
        """Once, until there is something else to say."""
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
