"""Run trials of all parts in parallel, for N minutes, and print the rows of their table.

Each worker has a /run and a /tmp of its own in a private mount namespace, so that each can hold the machine. One only
runs session after session. Kits that start together take a lock that all workers share: they come first, alone.
"""

from __future__ import annotations

import itertools
import multiprocessing
import shutil
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from types import ModuleType

import faults_full
import faults_hostile
import faults_kill
import faults_machine
import faults_soak
import faults_time
import faults_two
from faults_trial import Bench, Outcome, make_bench, print_table

from kit.host.command import run as run_command
from kit.host.namespace import enter_private_mounts
from tests.beside import own_run

FORK = multiprocessing.get_context("fork")
#: Trials of one world in which the kit is killed before the next has its turn.
KILLS = 3
#: How many sessions run one after the other, and until which share of the time at most.
SOAKS = {"smoke": (300, 0.5), "sessions": (300, 0.8), "worker": (300, 1.0)}
#: A kit that found another trial's for a moment in the queue of the machine: the trial says nothing.
BUSY = "concurrent sessions would disturb"

Trials = Iterable[Outcome]
Maker = Callable[[Bench], Trials]


def run(base: Path, image: Path, cache: Path | None, minutes: float, workers: int, seed: int) -> int:
    """Print each outcome as it comes, then the table. Returns the exit status.

    ``cache``: the cache of a kit, with images that take minutes to build (smoke, guest, uml); each worker copies it.
    """
    end = time.monotonic() + 60 * minutes
    turn, tracing = FORK.Value("q", 0), FORK.Lock()
    places = list(_places())

    def alone(lease: Bench) -> Trials:
        for where in faults_two.WHERE:
            yield from _tried(faults_two, lease, where, [seed])

    def soak(lease: Bench) -> Trials:
        began = time.monotonic()
        for where, (count, share) in SOAKS.items():
            numbers = _until(began + share * (end - began), range(count))
            yield from _tried(faults_soak, lease, where, numbers)

    def all_places(lease: Bench) -> Trials:
        while time.monotonic() < end:
            with turn:
                number, turn.value = turn.value, turn.value + 1
            part, where, count = places[number % len(places)]
            first = seed + number // len(places) * count
            seeds = _until(end, range(first, first + count))
            if where == "traced":  # what others load into the kernel is none of its own
                with tracing:
                    yield from _tried(part, lease, where, seeds)
            else:
                yield from _tried(part, lease, where, seeds)

    def gather(*makers: Maker) -> Iterator[Outcome]:
        return _gather([(base / f"popen-{n}", image, cache, make) for n, make in enumerate(makers)])

    return print_table(itertools.chain(gather(alone), gather(soak, *[all_places] * workers)))


def _until(moment: float, numbers: Iterable[int]) -> Iterator[int]:
    return itertools.takewhile(lambda _: time.monotonic() < moment, numbers)


def _places() -> Iterator[tuple[ModuleType, str, int]]:
    """Parts, where in them, and how many trials."""
    for part in (faults_kill, faults_full, faults_time, faults_machine, faults_hostile):
        for where in part.WHERE:
            yield part, where, KILLS if part is faults_kill and (where in part.WORLDS or where == "fleet") else 1


def _tried(part: ModuleType, lease: Bench, where: str, seeds: Iterable[int]) -> Iterator[Outcome]:
    """Its outcomes; an error of the trial itself is one, too."""
    try:
        for outcome in part.trials(lease, where, seeds):
            if not any(BUSY in wrong for wrong in outcome.wrong):
                yield outcome
    except Exception:
        yield Outcome(f"trial: {where}", 0, "not finished", (traceback.format_exc()[-600:],))


def _gather(works: Sequence[tuple[Path, Path, Path | None, Maker]]) -> Iterator[Outcome]:
    """Run each in a process of its own; yield what they find, as it comes."""
    found: SimpleQueue[Outcome | None] = FORK.SimpleQueue()
    workers = [FORK.Process(target=_work, args=(*work, found)) for work in works]
    for worker in workers:
        worker.start()
    for _ in workers:
        while outcome := found.get():
            yield outcome
    for worker in workers:
        worker.join()


def _work(base: Path, image: Path, cache: Path | None, make: Maker, found: SimpleQueue[Outcome | None]) -> None:
    shutil.rmtree(base, ignore_errors=True)
    for name in ("run", "tmp"):
        (base / name).mkdir(parents=True)
    try:
        if cache:
            shutil.copytree(cache, base / "home/cache", symlinks=True)
        enter_private_mounts()
        own_run(base / "run")
        (base / "tmp").chmod(0o1777)
        run_command(["mount", "--bind", base / "tmp", "/tmp"])
        for outcome in make(make_bench(base / "home", image)):
            found.put(outcome)
    finally:
        found.put(None)
