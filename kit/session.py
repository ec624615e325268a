"""The session: place → run → store for every step of a plan. The order of steps is written down here alone."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from kit import journal as journals
from kit.arm import Arm
from kit.cgroup import Cgroup
from kit.engines import Place, Setting
from kit.errors import RunError
from kit.journal import Journal
from kit.lock import machine_lock
from kit.measure import IdleRate, idle_rate
from kit.namespace import enter_private_mounts
from kit.paths import Paths
from kit.plan import Plan, Step
from kit.probe import probe_binary, spin
from kit.record import DONE, FAILED, Session
from kit.sample import Phase, Sample
from kit.store import Store
from kit.workload import Workload

DROP_CACHES = Path("/proc/sys/vm/drop_caches")


class Observer(Protocol):
    """Is told what goes on; fronts show it."""

    def tell(self, text: str) -> None:
        """A sentence for the user."""

    def planned(self, steps: int, done: int) -> None:
        """The plan is fixed: so many runs, so many of them done by an earlier start."""

    def running(self, step: Step, phase: str) -> None:
        """A run has come to this phase."""

    def finished(self, step: Step, sample: Sample) -> None:
        """A run is over and stored."""


class Places(Protocol):
    """What the session needs of a provision."""

    def place(self, arm: Arm) -> AbstractContextManager[Place]: ...

    def fresh_place(self, arm: Arm) -> AbstractContextManager[Place]: ...


@dataclass(frozen=True)
class Bench:
    """A machine held for one session: what ``held_machine`` gives."""

    setting: Setting
    paths: Paths


@contextmanager
def held_machine(name: str, paths: Paths, wait: bool, observer: Observer) -> Iterator[Bench]:
    """Hold the machine: lock, leftovers of dead sessions cleaned, private mounts, run directory, control group."""
    with ExitStack() as stack:
        stack.enter_context(machine_lock(paths.lock, name, wait, observer.tell))
        for line in journals.clean(paths.state / "journal"):
            observer.tell(f"cleaned up after {line}")
        stack.enter_context(_session_log(paths.data / "logs" / name / "session.log"))
        if os.geteuid() == 0:
            enter_private_mounts()
        journal = Journal(paths.state / "journal" / f"{name}.jsonl")
        stack.callback(journal.close)
        run = paths.run / name
        paths.run.mkdir(parents=True, exist_ok=True)
        stack.callback(_remove_if_empty, paths.run)
        stack.enter_context(journal.holding("directory", run))
        run.mkdir()
        for directory in (paths.run, run):
            # As root's: an arm's ordinary user must get through to its tree, and see nothing else.
            directory.chmod(0o711 if os.geteuid() == 0 else 0o700)
        cgroup = f"kit-{name}"
        if os.geteuid() == 0:
            stack.enter_context(journal.holding("cgroup", cgroup))
            Cgroup.named(cgroup).create()
        yield Bench(Setting(name, run, probe_binary(paths.cache), journal, cgroup), paths)


@contextmanager
def _session_log(path: Path) -> Iterator[None]:
    """Every subprocess of the session with its stderr, and the daemons' own logs: what errors point to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("kit")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
        handler.close()


def _remove_if_empty(directory: Path) -> None:
    with suppress(OSError):
        directory.rmdir()


def run_session(
    session: Session, plan: Plan, workload: Workload, places: Places, store: Store, bench: Bench, observer: Observer
) -> Session:
    """Run what is left of the plan. Each sample is stored when it exists; returns the session in its final state.

    Raises KeyboardInterrupt when interrupted and KitError when the machine can't go on.
    """
    done = {(sample.block, sample.arm) for sample in session.samples if sample.kind == "measured"}
    not_run = {item.arm for item in session.not_run}
    steps = [step for step in plan.steps() if str(step.arm) not in not_run and (step.block, str(step.arm)) not in done]
    if all(step.kind == "warmup" for step in steps):
        steps = []
    observer.planned(len(steps), len(done))
    drop_caches()
    idle = idle_rate(observer.tell)
    session = replace(session, facts={**session.facts, "idle CPU": f"{idle.rate:.4f} s per s"})
    store.update(session)
    samples = list(session.samples)
    for step in steps:
        sample = _run_step(step, plan, workload, places, bench, idle, observer)
        store.add_sample(session.id, sample)
        samples.append(sample)
        observer.finished(step, sample)
        if _hopeless(step, steps, samples):
            observer.tell("every arm failed: the rest of the plan is left undone")
            return replace(session, status=FAILED, samples=tuple(samples))
    return replace(session, status=DONE, samples=tuple(samples))


def _hopeless(step: Step, steps: list[Step], samples: list[Sample]) -> bool:
    """True at the end of the first pass over all arms if not one run of it, nor any before it, has succeeded."""
    last = [other for other in steps if other.block == steps[0].block][-1]
    return step == last and all(sample.status != "ok" for sample in samples)


def _run_step(
    step: Step, plan: Plan, workload: Workload, places: Places, bench: Bench, idle: IdleRate, observer: Observer
) -> Sample:
    """One run of one arm. A failure of the workload or the arm is a sample too."""
    started = time.time()
    label = f"{step.block:03d}-{str(step.arm).replace('/', '_').replace(':', '-')}"
    logfile = bench.paths.data / "logs" / bench.setting.session / f"{label}.log"
    logfile.parent.mkdir(parents=True, exist_ok=True)
    sample = Sample(str(step.arm), step.block, step.kind, "failed", started, (), log=str(logfile))
    observer.running(step, "place")
    place_started = time.monotonic()
    make = places.fresh_place if plan.fresh else places.place
    phases: list[Phase] = []
    calibration: list[float] = []
    error = ""
    inside = 0.0
    with ExitStack() as stack:
        try:
            place = stack.enter_context(make(step.arm))
            place = workload.fill(place)
            inside_started = time.monotonic()
            error = workload.prepare(place, logfile)
            settle(place, plan.cache)
            calibration.append(spin(bench.setting.probe))
            error = error or workload.run(place, logfile, phases, idle, lambda name: observer.running(step, name))
            calibration.append(spin(bench.setting.probe))
            inside = time.monotonic() - inside_started
        except RunError as failure:
            error = failure.message
        except OSError as failure:
            error = f"{failure.filename}: {failure.strerror}"
        observer.running(step, "release")
    engine_seconds = time.monotonic() - place_started - inside
    return replace(
        sample,
        status="failed" if error else "ok",
        phases=tuple(phases),
        calibration_before=calibration[0] if calibration else None,
        calibration_after=calibration[1] if len(calibration) > 1 else None,
        engine_seconds=engine_seconds,
        error=error,
        digests=tuple(workload.digests(step.arm)),
    )


def settle(place: Place, cache: str) -> None:
    """Nothing dirty is left of placing; a cold run finds no cache, where this machine allows dropping it."""
    place.backing.sync()
    if cache == "cold":
        drop_caches()


def drop_caches() -> None:
    """Before the first run too: files just unpacked lie in the page cache as they were written, in other folio sizes
    than files read back, and each arm's were written by another program. Read anew, they are alike."""
    if os.access(DROP_CACHES, os.W_OK):
        DROP_CACHES.write_text("3")
