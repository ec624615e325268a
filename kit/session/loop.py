"""The session: place → run → store for every step of a plan. The order of steps is written down here alone."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from kit.analysis.burst import find_bursts, own_nature
from kit.core.errors import KitError, said_by_system
from kit.core.limit import Deadline, run_deadline
from kit.core.paths import Paths
from kit.core.private import make_private
from kit.core.redact import RedactedFormatter
from kit.engines import Place, Setting
from kit.filesystem import Backing
from kit.host.cgroup import Cgroup
from kit.host.interrupt import checkpoint, interrupts_held
from kit.host.journal import Journal
from kit.host.leftovers import clean
from kit.host.lock import machine_lock
from kit.host.namespace import enter_private_mounts
from kit.host.rest import IdleRate, IdleWatch
from kit.model.arm import Arm
from kit.model.fact import NO_REPEATS, STOPPED, Fact
from kit.model.plan import Plan, PlanStep
from kit.model.sample import Phase, Sample
from kit.model.session import DONE, FAILED, Session, check_session_id
from kit.probe import Spin, probe_binary, spin
from kit.session.background import Beside, Load
from kit.session.cleanups import CLEANUPS
from kit.session.runlog import cut_middle, log_name
from kit.session.schedule import Block, End, Schedule
from kit.session.tracing import Tracing
from kit.session.workers import one_at_a_time
from kit.session.workload import Workload
from kit.trace.tracer import Tracer

DROP_CACHES = Path("/proc/sys/vm/drop_caches")


class Observer(Protocol):
    """Is told what goes on; fronts show it."""

    def tell(self, text: str) -> None:
        """A sentence for the user."""

    def began(self, session: Session) -> None:
        """A session has begun or goes on, with the samples that it has."""

    def planned(self, steps: int, done: int) -> None:
        """So many runs at least, so many done by an earlier start."""

    def extended(self, steps: int, reason: str) -> None:
        """So many runs more, and why."""

    def running(self, step: PlanStep, phase: str) -> None:
        """A run has come to this phase."""

    def finished(self, step: PlanStep, sample: Sample) -> None:
        """A run is over and stored."""


class Keeper(Protocol):
    """What the session needs of a store."""

    def update(self, session: Session) -> None: ...

    def add_sample(self, session_id: str, sample: Sample) -> None: ...

    def set_flags(self, session_id: str, arm: str, point: str, block: int, flags: str) -> None: ...


class Places(Protocol):
    """What the session needs of a provision."""

    def place(self, arm: Arm) -> AbstractContextManager[Place]: ...

    def fresh_place(self, arm: Arm) -> AbstractContextManager[Place]: ...

    def read_all(self) -> None: ...

    def sync(self, but: Backing | None = None) -> None: ...


@dataclass(frozen=True)
class Bench:
    """A machine held for one session: what ``held_machine`` gives."""

    setting: Setting
    paths: Paths


@contextmanager
def held_machine(name: str, paths: Paths, wait: bool, observer: Observer) -> Iterator[Bench]:
    """Hold the machine: lock, leftovers of dead sessions cleaned, private mounts, run directory, control group.

    Interrupts wait for ``interruptible``: what is made here and in the block is undone, whenever they come."""
    check_session_id(name)
    # As root's: an arm's ordinary user must get through to its tree, and see nothing else.
    mode = 0o711 if os.geteuid() == 0 else 0o700
    with interrupts_held(), ExitStack() as stack:
        stack.enter_context(machine_lock(paths.lock, name, wait, observer.tell))
        make_private(paths.state, mode)
        cleaned = clean(paths.state / "journal", CLEANUPS)
        for line in (*(f"cleaned up after {line}" for line in cleaned.undone), *cleaned.left):
            observer.tell(line)
        stack.enter_context(_session_log(paths.data / "logs" / name / "session.log"))
        if os.geteuid() == 0:
            enter_private_mounts()
        journal = Journal(paths.state / "journal" / f"{name}.jsonl", CLEANUPS)
        stack.callback(journal.close)
        run = paths.run / name
        make_private(paths.run, mode)
        stack.callback(_remove_if_empty, paths.run)
        stack.enter_context(journal.directory(run, mode))
        cgroup = f"kit-{name}"
        if os.geteuid() == 0:
            stack.enter_context(journal.holding("cgroup", cgroup))
            Cgroup.named(cgroup).create()
        probe = probe_binary(paths.cache)
        yield Bench(Setting(name, run, probe, journal, cgroup, paths.cache, tell=one_at_a_time(observer.tell)), paths)


@contextmanager
def _session_log(path: Path) -> Iterator[None]:
    """Every subprocess of the session with its stderr, and the daemons' own logs: what errors point to."""
    make_private(path.parent)
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(RedactedFormatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("kit")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False  # what the file is for would fill the user's own log
    try:
        yield
    finally:
        logger.setLevel(before[0])
        logger.propagate = before[1]
        logger.removeHandler(handler)
        handler.close()


def _remove_if_empty(directory: Path) -> None:
    with suppress(OSError):
        directory.rmdir()


@dataclass(frozen=True)
class RunContext:
    """What all runs of a session have in common. ``workloads``: one for each point of a sweep."""

    plan: Plan
    workloads: Mapping[str, Workload]
    places: Places
    store: Keeper
    bench: Bench
    observer: Observer
    load: Load | None = None
    tracers: tuple[Tracer, ...] = ()  # of traced runs

    @property
    def group(self) -> Cgroup:
        """The control group of all that the session starts; without root there is none of that name."""
        return Cgroup.named(self.bench.setting.cgroup)


def run_session(session: Session, run: RunContext, left: Callable[[], float | None] = lambda: None) -> Session:
    """Run what is left of the plan. Each sample is stored when it exists; returns the session in its final state.

    ``left``: seconds of the budget that remain. Raises KeyboardInterrupt when interrupted and KitError when the machine
    can't go on.
    """
    not_run = {item.arm for item in session.not_run}
    schedule = Schedule(run.plan, [str(arm) for arm in run.plan.arms if str(arm) not in not_run])
    done = sum(sample.kind == "measured" for sample in session.samples)
    run.observer.planned(schedule.least(session.samples), done)
    run.places.sync()  # what is still to be written back is neither dropped below nor a machine at rest
    drop_caches()
    if run.plan.cache == "warm" and not run.plan.fresh:
        run.places.read_all()
    watch = IdleWatch(run.observer.tell)
    idle = watch.first()
    session = session.with_facts(watch.facts())
    run.store.update(session)
    samples = list(session.samples)
    pace = Pace(left)
    while True:
        block = schedule.next(samples, left(), pace.mean)
        if isinstance(block, End) or block.steps[0].repeats is not None:
            samples = _flag_bursts(session, samples, run.store)
        if isinstance(block, End):
            break
        if block.reason:
            run.observer.extended(len(block.steps), block.reason)
        if pace.runs:
            run.places.sync()
            idle = watch.again(pace.mean * len(block.steps))
        samples += run_block(session, block, run, idle, pace)
        if all(sample.status != "ok" for sample in samples):
            run.observer.tell("every arm failed: the rest of the plan is left undone")
            return replace(session, status=FAILED, samples=tuple(samples))
    facts = [*watch.facts(), *_natures(samples), STOPPED.fact(block.reason)]
    if not samples:
        run.observer.tell(f"nothing was measured: {block.reason}; to make ready counts, to build or fetch does not")
    status = DONE if samples else FAILED
    session = replace(session.with_facts(facts), status=status, samples=tuple(samples))
    run.store.update(session)
    return session


@dataclass
class Pace:
    """What the session's runs take, engine and all. ``left``: seconds of the budget that remain."""

    left: Callable[[], float | None]
    runs: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    @property
    def mean(self) -> float:
        return self.seconds / self.runs if self.runs else 0.0

    def add(self, seconds: float) -> None:
        self.runs += 1
        self.seconds += seconds
        self.longest = max(self.longest, seconds)

    @property
    def over(self) -> bool:
        left = self.left()
        return left is not None and left <= 0

    def deadline(self, timeout: float | None) -> Deadline | None:
        """Of a run that begins now."""
        return run_deadline(time.monotonic(), timeout, self.left(), self.longest)


def run_block(session: Session, block: Block, run: RunContext, idle: IdleRate, pace: Pace) -> Iterator[Sample]:
    """Its runs, as long as the budget lasts, each stored when it is over."""
    for step in block.steps:
        if pace.over:
            return
        checkpoint()
        began = time.monotonic()
        sample = _run_step(step, run, idle, pace)
        pace.add(time.monotonic() - began)
        run.store.add_sample(session.id, sample)
        run.observer.finished(step, sample)
        yield sample


def _flag_bursts(session: Session, samples: list[Sample], store: Keeper) -> list[Sample]:
    """Judge all runs by the burst rule, now that the session's medians are known."""
    bursts = find_bursts(samples)
    flagged = []
    for sample in samples:
        why = bursts.get((sample.arm, sample.point, sample.block), "") if sample.kind == "measured" else ""
        if why and not sample.flags:
            store.set_flags(session.id, sample.arm, sample.point, sample.block, why)
        flagged.append(replace(sample, flags=why or sample.flags))
    return flagged


def _natures(samples: list[Sample]) -> list[Fact]:
    """Arms of which flagged runs are not made again, for the record."""
    found = own_nature(samples, find_bursts(samples))
    return [NO_REPEATS.fact(f"{why}: its own doing", " at ".join(filter(None, key))) for key, why in found.items()]


def _run_step(step: PlanStep, run: RunContext, idle: IdleRate, pace: Pace) -> Sample:
    """One run of one arm. A failure of the workload or the arm is a sample too, also one to release it."""
    workload, bench, observer = run.workloads[step.point], run.bench, run.observer
    started = time.time()
    logfile = bench.paths.data / "logs" / bench.setting.session / f"{log_name(step)}"
    logfile.parent.mkdir(parents=True, exist_ok=True)
    sample = Sample(
        str(step.arm), step.block, step.kind, "failed", started, (),
        log=str(logfile), point=step.point, repeats=step.repeats,
    )  # fmt: skip
    observer.running(step, "place")
    place_started = time.monotonic()
    make = run.places.fresh_place if run.plan.fresh else run.places.place
    phases: list[Phase] = []
    spins: list[Spin] = []
    errors: list[str] = []
    inside = Stopwatch()
    with _noted(errors), ExitStack() as stack:
        with _noted(errors):
            place = stack.enter_context(_placed(make, step.arm))
            place = replace(workload.fill(place), deadline=pace.deadline(run.plan.timeout))
            with inside:
                said = workload.prepare(place, logfile)
                spins.append(spin(bench.setting.probe))
                with _beside(run.load, step.arm) as beside:
                    place = replace(place, load=run.load.group if run.load else None, session=run.group)
                    settle(place, run.places, run.plan.cache)
                    tracing = Tracing(run.tracers, step, run.group, bench.setting.run, logfile)
                    on_phase = partial(observer.running, step)
                    said = said or workload.run(place, logfile, phases, idle, on_phase, tracing)
                    errors += [said] if said else []
                sample = replace(sample, load=beside.text if beside else "")
                spins.append(spin(bench.setting.probe))
        observer.running(step, "release")
    engine_seconds = time.monotonic() - place_started - inside.seconds
    cut_middle(logfile)
    return replace(
        sample,
        status="failed" if errors else "ok",
        phases=tuple(phases),
        calibration_before=spins[0].arithmetic if spins else None,
        calibration_after=spins[1].arithmetic if len(spins) > 1 else None,
        memory_before=spins[0].memory if spins else None,
        memory_after=spins[1].memory if len(spins) > 1 else None,
        engine_seconds=engine_seconds,
        error="\n".join(errors),
        digests=(*workload.digests(step.arm), *(run.load.digests if run.load else ())),
    )


@contextmanager
def _placed(make: Callable[[Arm], AbstractContextManager[Place]], arm: Arm) -> Iterator[Place]:
    """A place of which nothing runs on beside the next, also where it can't be released."""
    group: Cgroup | None = None
    try:
        with make(arm) as place:
            group = place.cgroup
            yield place
    except BaseException:
        if group:
            group.kill()
        raise


@contextmanager
def _noted(errors: list[str]) -> Iterator[None]:
    """What keeps the block from its end is why the run has failed."""
    try:
        yield
    except KitError as error:
        errors.append(error.message)
    except OSError as error:
        errors.append(said_by_system(error))


@dataclass
class Stopwatch:
    """Seconds inside its block, however that ends."""

    seconds: float = 0.0

    def __enter__(self) -> None:
        self.seconds -= time.monotonic()

    def __exit__(self, *error: object) -> None:
        self.seconds += time.monotonic()


def _beside(load: Load | None, arm: Arm) -> AbstractContextManager[Beside | None]:
    return load.beside(arm) if load else nullcontext()


def settle(place: Place, places: Places, cache: str) -> None:
    """Nothing dirty is left of placing, nor of the run before, which may have been on another filesystem: what is still
    being written back or given up there would be charged to this run. A cold run finds no cache, where this machine
    allows dropping it."""
    place.sync()
    places.sync(but=place.backing)
    if cache == "cold":
        drop_caches()


def drop_caches() -> None:
    """Before the first run too: files just unpacked lie in the page cache as they were written, in other folio sizes
    than files read back, and each arm's were written by another program. Read anew, all in one way, they are alike."""
    if os.access(DROP_CACHES, os.W_OK):
        DROP_CACHES.write_text("3")
