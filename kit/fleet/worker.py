"""A machine's worker: says what the machine is, takes one share at a time, and starts the process that runs it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from signal import SIGINT
from typing import TYPE_CHECKING, Any

from kit import __version__
from kit.core.codec import decode_json, encode, encode_json
from kit.core.errors import MachineError, RunError
from kit.fleet.address import Address
from kit.fleet.greeting import AbsentError, greet
from kit.fleet.scheduler import PAGES
from kit.fleet.serving import serve
from kit.fleet.settings import prepare
from kit.fleet.share import Assignment, Share
from kit.host.command import Process, died, talking
from kit.host.machine import read_host
from kit.model.fact import stored
from kit.model.machine_class import class_of
from kit.model.member import Member
from kit.probe import probe_digest
from kit.session.facts import machine_facts
from kit.session.guest_protocol import Done, Failed, Last, decode_line, encode_message

if TYPE_CHECKING:
    from distributed import Worker, WorkerPlugin
    from distributed.security import Security

#: As what the worker has the kit's part of it, and its machine's description.
PLUGIN = DESCRIPTION = "kit"


def describe(name: str, kind: str, together: bool) -> Member:
    """This machine. ``kind`` '': the class that its facts give it."""
    host = read_host()
    return Member(
        name=name,
        kind=kind or class_of(stored([*machine_facts(host)])),
        named=bool(kind),
        kit_version=__version__,
        probe=probe_digest(),
        kernel=host.kernel,
        cpu=host.cpu,
        cores=host.cores,
        memory=host.memory_bytes,
        virtualization=host.virtualization,
        root=host.root,
        machine=host.machine,
        together=together,
    )


@dataclass
class Carrier:
    """Runs shares, one after the other. What it began it ends when the share is no longer wanted, or with itself."""

    member: Member
    home: str = ""
    _running: dict[str, Process] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def carry(self, key: str, text: str, say: Callable[[str], None]) -> str:
        """Run a share, as JSON, to its end; returns the last message of it as a line. ``say`` gets each other."""
        assignment = Assignment(decode_json(Share, text), self.home, self.member.together)
        path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **_home_of(self.home)}
        last: Last = Failed.by(RunError("its process has ended without a word", "the worker's log has more"))
        with talking([sys.executable, "-m", "kit.fleet.agent"], "a share", path) as process:
            assert process.stdin and process.stdout
            with self._lock:
                self._running[key] = process
            try:
                process.stdin.write(encode_json(assignment).encode() + b"\n")
                process.stdin.flush()
                for line in process.stdout:
                    message = decode_line(line)
                    if isinstance(message, Done | Failed):
                        last = message
                    elif message is not None:
                        say(line.decode())
            finally:
                with self._lock:
                    del self._running[key]
        if isinstance(last, Failed) and died(process).startswith("killed"):
            last = Failed.by(RunError(f"its process was {died(process)}", "the worker's log has more"))
        return encode_message(last).decode().strip()

    def interrupt(self, key: str = "") -> None:
        """End a share, all where none is named: what it holds is given back first."""
        with self._lock:
            for name, process in self._running.items():
                if key in ("", name):
                    with suppress(ProcessLookupError):
                        process.send_signal(SIGINT)


def _home_of(home: str) -> dict[str, str]:
    return {"KIT_HOME": home} if home else {}


def plugin(carrier: Carrier) -> WorkerPlugin:
    """The kit's part of a worker of Dask's."""
    from distributed import WorkerPlugin

    class Sessions(WorkerPlugin):
        name = PLUGIN

        def __init__(self) -> None:
            self.carrier = carrier

        def setup(self, worker: Worker) -> None:
            worker.startup_information[DESCRIPTION] = lambda worker: encode(carrier.member)

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
    carrier: Carrier = worker.plugins[PLUGIN].carrier  # type: ignore[attr-defined]
    key = str(worker.get_current_task())

    def say(line: str) -> None:
        worker.log_event(topic, {"key": key, "line": line})

    return carrier.carry(key, text, say)


def run_worker(address: Address, carrier: Carrier, tell: Callable[[str], None]) -> None:
    """Until it is interrupted: where there is no scheduler, or it is lost, it waits for one at that address. Raises
    MachineError where they refuse each other."""
    prepare()
    from distributed import Worker

    shown = _wait_for_scheduler(address, tell)
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
            raise MachineError(f"no worker for {address.url}: {error}", "kit fleet status lists the machines") from None
        return worker

    while not serve(make, lambda worker: tell(f"{carrier.member.name} works for {address.url}")):
        tell(f"the scheduler at {address.url} is gone")
        _wait_for_scheduler(address, tell)


def _wait_for_scheduler(address: Address, tell: Callable[[str], None]) -> Security | None:
    told = False
    while True:
        try:
            return greet(address, "worker")
        except AbsentError as error:
            if not told:
                tell(f"{error.message}; waits for it")
            told = True
            time.sleep(1)
