"""What a fleet costs beside what it measures: a real scheduler, and workers that sleep instead of measuring.

    python benchmarks/performance/fleet.py [--workers 10,100,1000] [--rounds 3] [--seconds 5]

The scheduler is a process as `kit fleet scheduler` starts it; workers live many to a process. A session of so many
rounds for each machine is split over all of them as `kit compare --fleet --split` does it. A worker sleeps so many
seconds for each round and says what a session says: two arms, one phase each.

Printed: seconds from submission to the last result, and beside them the ideal, rounds times seconds; the same in
percent; the scheduler's memory at its highest and its CPU; how long the client worked (CPU).
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kit.core.codec import decode_json
from kit.extra.fleet.address import parse_address
from kit.extra.fleet.client.client import fleet_at
from kit.extra.fleet.client.dispatch import Dispatch
from kit.extra.fleet.client.split import SplitCourse
from kit.extra.fleet.service.share_runner import ShareRunner
from kit.extra.fleet.service.worker import plugin, run_worker
from kit.extra.fleet.settings import allow_many_files
from kit.extra.fleet.share import Share
from kit.model.arm import parse_arms
from kit.model.event import Event, FactsKnown, PhaseStarted, RunsPlanned, SampleTaken
from kit.model.machine import Member
from kit.model.options import SessionOptions
from kit.model.plan import PlanStep, make_plan
from kit.model.sample import Phase, Sample
from kit.model.session import RUNNING, Request, Session
from kit.report.text.progress import Quiet
from kit.session.wire.messages import Done, Last, encode_message

#: Workers that one process has.
MANY = 100
ARMS = ("bare", "layer:overlay2")
MEMBER = Member(
    name="", kind="sleeper", kit_version="0", probe="0", kernel="none", cpu="none", cores=1, memory=1 << 30,
    virtualization="none", root=False, machine="0",
)  # fmt: skip


class SleepingRunner(ShareRunner):
    """Sleeps in the place of each round."""

    seconds = 1.0

    def __init__(self, name: str) -> None:
        super().__init__(replace(MEMBER, name=name, machine=name))
        self._ended = threading.Event()

    def interrupt(self, key: str = "") -> None:
        self._ended.set()

    def carry(self, key: str, text: str, say: Callable[[Event], None]) -> str:
        share = decode_json(Share, text)
        self._ended.clear()

        say(FactsKnown.of(share.session))
        plan = share.session.kept_plan()
        say(RunsPlanned(len(share.assigned) * len(plan.arms), 0))
        for round_ in share.assigned:
            began = time.monotonic()
            for number, step in enumerate(plan.round(round_), 1):
                say(PhaseStarted(step, "sleep"))
                left = began + self.seconds * number / len(plan.arms) - time.monotonic()
                if self._ended.wait(max(0.0, left)):
                    return encode_message(Done.by(share.session)).decode().strip()
                say(SampleTaken(_sample(step)))
        return encode_message(Done.by(share.session)).decode().strip()


def _sample(step: PlanStep) -> Sample:
    phase = Phase(name="sleep", status="ok", real=1.0, user=0.5, sys=0.5, exit_code=0)
    return Sample(str(step.arm), step.round, step.kind, "ok", time.time(), (phase,), digests=(("image", "0" * 64),))


def sleep_as(port: int, first: int, count: int, seconds: float) -> None:
    """So many workers in this process, until the scheduler is gone; one waits for it, as those of the kit do."""
    from distributed import Worker
    from tornado.ioloop import IOLoop

    from kit.extra.fleet.settings import prepare

    prepare()
    SleepingRunner.seconds = seconds
    if count == 1:
        run_worker(parse_address(f"127.0.0.1:{port}", ""), SleepingRunner(f"m{first}"), lambda text: None)
        return

    async def run() -> None:
        workers = [
            Worker(
                f"tcp://127.0.0.1:{port}",
                nthreads=1,
                name=f"m{number}",
                resources={"machine": 1},
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                memory_limit=0,
                plugins=(plugin(SleepingRunner(f"m{number}")),),
            )
            for number in range(first, first + count)
        ]
        for worker in workers:
            await worker
        for worker in workers:
            await worker.finished()

    IOLoop().run_sync(run)


class NoKeeper:
    """Nothing is kept: a store has its own benchmark."""

    def take(self, *events: Event) -> None:
        return None


class TimedCourse(SplitCourse):
    """Knows when the first share was dealt, and when the last was over."""

    began = ended = 0.0

    @property
    def elapsed(self) -> float:
        return self.ended - self.began

    def assign(self, idle: Sequence[Member]) -> Sequence[tuple[Member, Share]]:
        self.began = self.began or time.monotonic()
        return super().assign(idle)

    def end(self, member: Member, last: Last | None) -> None:
        super().end(member, last)
        self.ended = time.monotonic()


@dataclass(frozen=True)
class Outcome:
    workers: int
    rounds: int
    elapsed: float
    ideal: float
    memory: float  # bytes, the scheduler's at its highest
    scheduler_cpu: float  # seconds
    client_cpu: float


@contextmanager
def _process(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, *words], stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


def measure(workers: int, rounds: int, seconds: float, port: int) -> Outcome:
    with ExitStack() as stack:
        listen = f"127.0.0.1:{port}"
        scheduler = stack.enter_context(_process("-m", "kit", "fleet", "scheduler", "--listen", listen))
        for first in range(0, workers, MANY):
            words = (str(port), str(first), str(min(MANY, workers - first)), str(seconds))
            stack.enter_context(_process(__file__, "--sleep-as", *words))
        address = parse_address(listen, "")
        members = _all(listen, workers)
        request = Request(command=("sleep",), arms=ARMS, rounds=rounds * workers)
        plan = make_plan(parse_arms(",".join(ARMS)), SessionOptions(rounds=rounds * workers, seed=1, control=False))
        now = time.time()
        session = Session("benchmark", now, "0", "sleep", RUNNING, request, ARMS, plan.baselines, 1, plan=plan)
        course = TimedCourse(session, plan, members, NoKeeper(), Quiet())
        before = time.process_time()
        Dispatch(address, course, lambda text: None, 60).run()
        found = course.result().samples
        assert len(found) == len({(item.round, item.arm) for item in found}) == rounds * workers * len(ARMS)
        return Outcome(
            workers, rounds, course.elapsed, rounds * seconds, _peak(scheduler.pid), _cpu(scheduler.pid),
            time.process_time() - before,
        )  # fmt: skip


def _all(listen: str, count: int) -> list[Member]:
    """The workers, once all are there."""
    from kit.extra.fleet.handshake import AbsentError

    deadline = time.monotonic() + 600
    while True:
        try:
            with fleet_at(parse_address(listen, "")) as fleet:
                while len(members := list(fleet.members().values())) < count:
                    time.sleep(1)
                    assert time.monotonic() < deadline, f"{len(members)} of {count} workers have come"
                return members
        except AbsentError:
            assert time.monotonic() < deadline, "no scheduler has come"
            time.sleep(0.5)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _peak(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(float(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def _cpu(pid: int) -> float:
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="10,100,1000")
    parser.add_argument("--rounds", type=int, default=3, help="for each machine")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each round")
    parser.add_argument("--sleep-as", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.sleep_as:
        port, first, count, seconds = given.sleep_as
        sleep_as(int(port), int(first), int(count), float(seconds))
        return
    allow_many_files()
    print("workers  rounds  elapsed s  ideal s  above it  scheduler MiB  its CPU s  client CPU s")
    for count in map(int, given.workers.split(",")):
        found = measure(count, given.rounds, given.seconds, _free_port())
        above = found.elapsed / found.ideal - 1
        print(
            f"{count:7}  {found.rounds:6}  {found.elapsed:9.1f}  {found.ideal:7.1f}  {above:8.1%}"
            f"  {found.memory / 2**20:13.0f}  {found.scheduler_cpu:9.1f}  {found.client_cpu:12.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
