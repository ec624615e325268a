"""The session loop: prepare, run and store for every step of a plan. This module alone defines the order of steps."""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kit.analysis.runs.disturbance import find_bursts, own_nature
from kit.arms.engines import EngineConfig
from kit.arms.filesystem.block import unmount
from kit.arms.probe import probe_binary
from kit.core.deadline import Deadline, run_deadline
from kit.core.paths import Paths
from kit.core.private import make_private, passable_mode, plain_umask
from kit.core.redact import RedactedFormatter
from kit.host.assumptions import check_machine
from kit.host.cgroup.cgroup import Cgroup
from kit.host.cgroup.idle_load import IdleRate, IdleWatch
from kit.host.interrupt import checkpoint, interrupts_held
from kit.host.kernel_part import loaded_modules
from kit.host.lock import machine_lock
from kit.host.namespace import allow_programs, enter_private_mounts, own_network
from kit.host.recovery.journal import Journal
from kit.model.event import EventSink, FactsKnown, RunFlagged, RunsAdded, RunsPlanned, SampleTaken
from kit.model.fact import DEFAULT_REFERENCE, NO_RERUN, STOPPED, Fact
from kit.model.plan import PlanStep
from kit.model.sample import TRACED, Sample
from kit.model.session import DONE, FAILED, Session
from kit.session.measure.context import MachineLease, RunContext
from kit.session.measure.interleave import run_interleaved
from kit.session.measure.run import run_whole
from kit.session.plan.schedule import EVERY_ARM_FAILED, GIVE_UP, End, Failing, Round, Schedule, find_failing
from kit.session.setup.caches import drop_caches
from kit.session.setup.cleanups import CLEANUPS, clean_machine
from kit.session.setup.workers import one_at_a_time


@contextmanager
def held_machine(name: str, paths: Paths, wait: bool, observer: EventSink) -> Iterator[MachineLease]:
    """Hold the machine: lock, leftovers of dead sessions cleaned, private mounts, run directory, control group.
    ``name``: a valid session id. Raises MachineError if the machine lacks what every session needs.

    Interrupts wait for ``interruptible``: everything made here and in the block is undone, whenever they come."""
    check_machine(paths)
    mode = passable_mode()
    with plain_umask(), interrupts_held(), ExitStack() as stack:
        stack.enter_context(machine_lock(paths.lock, name, wait, observer.tell))
        make_private(paths.state, mode)
        stack.callback(_name_loaded, loaded_modules(), observer)
        cleaned = clean_machine(paths)
        for line in (*(f"cleaned up after {line}" for line in cleaned.undone), *cleaned.left):
            observer.tell(line)
        make_private(paths.data)
        stack.enter_context(_session_log(paths.logs(name) / "session.log"))
        root = os.geteuid() == 0
        if root:
            enter_private_mounts()
        make_private(paths.cache)
        lifted = root and allow_programs(paths.cache)
        if lifted:
            stack.callback(unmount, paths.cache)
        journal = Journal(paths.journals / f"{name}.jsonl", CLEANUPS)
        stack.callback(journal.close)
        run = paths.run / name
        stack.enter_context(_run_directory(paths.run, mode, journal))
        stack.enter_context(journal.directory(run, mode))
        stack.enter_context(journal.directory(paths.state / name))
        cgroup, network = f"kit-{name}", None
        if root:
            if allow_programs(run):
                stack.callback(unmount, run)
            stack.enter_context(journal.holding("cgroup", cgroup))
            Cgroup.named(cgroup).create()
            network = run / "net"
            stack.enter_context(own_network(network))
        probe = probe_binary(paths.cache)
        setting = EngineConfig(name, run, probe, journal, cgroup, paths.cache, lifted=lifted, network=network)
        yield MachineLease(replace(setting, tell=one_at_a_time(observer.tell)), paths)


def _name_loaded(before: frozenset[str], observer: EventSink) -> None:
    """Name the kernel modules that mounts and daemons of a session have loaded: nothing unloads them."""
    new = sorted(loaded_modules() - before)
    if new:
        names = ", ".join(new)
        observer.tell(f"kernel modules loaded meanwhile: {names}; they stay until a reboot, or modprobe -r")


class _LogFile(logging.FileHandler):
    """A log handler that ignores a full disk: the log ends there, and the session goes on without an error."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        return None

    def close(self) -> None:
        with suppress(OSError):
            super().close()


@contextmanager
def _session_log(path: Path) -> Iterator[None]:
    """Log every subprocess of the session with its stderr, and the daemons' own logs: errors refer to this file."""
    make_private(path.parent)
    handler = _LogFile(path, delay=True)
    handler.setFormatter(RedactedFormatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("kit")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False  # debug messages would fill the user's own log
    try:
        yield
    finally:
        logger.setLevel(before[0])
        logger.propagate = before[1]
        logger.removeHandler(handler)
        handler.close()


@contextmanager
def _run_directory(path: Path, mode: int, journal: Journal) -> Iterator[None]:
    """Yield the directory of all sessions' run directories: the last session removes it."""
    journal.acquire("empty directory", path)
    try:
        make_private(path, mode)
        try:
            yield
        finally:
            with suppress(OSError):
                path.rmdir()
    finally:
        journal.release("empty directory", path)


def run_rounds(session: Session, run: RunContext, left: Callable[[], float | None] = lambda: None) -> Session:
    """Run what is left of the plan. Each sample is stored at once; return the session in its final state.

    ``left``: remaining seconds of the budget. Raises KeyboardInterrupt when interrupted, and KitError if the machine
    can't continue."""
    not_run = {blocked_arm.arm for blocked_arm in session.not_run}
    able = [str(arm) for arm in run.plan.arms if str(arm) not in not_run]
    schedule = Schedule(run.plan, able, DEFAULT_REFERENCE.text(session.facts))
    measured_runs = sum(sample.kind == "measured" for sample in session.samples)
    run.events.take(RunsPlanned(schedule.least(session.samples), measured_runs))
    warm = run.plan.cache == "warm" and not run.plan.fresh
    _settle_caches(run, warm)
    watch = IdleWatch(run.events.tell)
    idle = watch.first()
    session = session.with_facts(watch.facts())
    run.events.take(FactsKnown.of(session))
    samples, failing = list(session.samples), find_failing(session.samples)
    if _is_measured(samples):
        return replace(session, status=DONE)
    # Other limits end no run.
    timing = RunTiming(left if run.plan.budget is not None else lambda: None)
    while True:
        round_ = schedule.next(samples, left(), timing.mean)
        if isinstance(round_, End) or round_.steps[0].rerun_of is not None:
            samples = _flag_bursts(samples, run.events)
        if isinstance(round_, End):
            break
        if round_.reason:
            run.events.take(RunsAdded(len(round_.steps), round_.reason))
        if timing.runs:
            run.places.sync()
            if warm and run.plan.interleave is not None:
                run.places.read_anew(random.Random(f"{run.plan.seed}/{round_.number}/{round_.steps[0].rerun_of}"))
            idle = watch.again(timing.mean * len(round_.steps))
        watch.note_round(round_.number)
        samples += run_round(round_, run, idle, timing)
        if all(sample.status != "ok" for sample in samples):
            session = replace(session.with_facts([STOPPED.fact(EVERY_ARM_FAILED)]), samples=tuple(samples))
            return _ended(session, run, FAILED)
        failing = _tell_failing(samples, failing, run)
    facts = [*watch.facts(), *_natures(samples), STOPPED.fact(round_.reason)]
    if not samples:
        text = f"nothing was measured: {round_.reason}; the budget includes set-up, but not builds or downloads"
        run.events.tell(text)
    session = replace(session.with_facts(facts), samples=tuple(samples))
    return _ended(session, run, DONE if any(sample.status == "ok" for sample in samples) else FAILED)


def _settle_caches(run: RunContext, warm: bool) -> None:
    run.places.sync()  # pending write-back would survive the drop of caches below, and the machine would not be idle
    drop_caches()
    if warm:
        run.places.read_all()


def _ended(session: Session, run: RunContext, status: str) -> Session:
    run.events.take(FactsKnown.of(session))
    return replace(session, status=status)


def _tell_failing(samples: Sequence[Sample], known: Failing, run: RunContext) -> Failing:
    """Name the arms that are run no more since the last round; return all of them."""
    if run.plan.assigned:
        return known
    failing = find_failing(samples)
    for (arm, point), error in failing.items():
        if (arm, point) not in known:
            at = f" at {point}" if point else ""
            run.events.tell(f"{arm}{at} failed {GIVE_UP} times in the same way and is run no more: {error}")
    return failing


def _is_measured(samples: Sequence[Sample]) -> bool:
    """Return whether a session was stopped in its traced rounds: with a budget it would otherwise measure again."""
    return any(sample.kind == TRACED for sample in samples)


@dataclass
class RunTiming:
    """How long the session's runs take, engine included. ``left``: remaining seconds of the budget."""

    left: Callable[[], float | None]
    runs: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    @property
    def mean(self) -> float:
        return self.seconds / self.runs if self.runs else 0.0

    def add(self, seconds: float, runs: int) -> None:
        """Add the seconds of runs that were made together."""
        self.runs += runs
        self.seconds += seconds
        self.longest = max(self.longest, seconds)

    @property
    def over(self) -> bool:
        seconds_left = self.left()
        return seconds_left is not None and seconds_left <= 0

    def deadline(self, timeout: float | None) -> Deadline | None:
        """Return the deadline of one run, or of several that are made together, that begins now."""
        return run_deadline(time.monotonic(), timeout, self.left(), self.longest)


def run_round(round_: Round, run: RunContext, idle: IdleRate, timing: RunTiming) -> Iterator[Sample]:
    """Make the runs of a round while the budget lasts; store each at its end."""
    for steps in _together(round_, run):
        if timing.over:
            return
        checkpoint()
        began = time.monotonic()
        samples = (
            [run_whole(steps[0], run, idle, partial(timing.deadline, run.plan.timeout))]
            if run.plan.interleave is None
            else run_interleaved(steps, run, idle, timing.deadline, run.plan.interleave)
        )
        timing.add(time.monotonic() - began, len(steps))
        for sample in samples:
            run.events.take(SampleTaken(sample))
            yield sample


def _together(round_: Round, run: RunContext) -> list[Sequence[PlanStep]]:
    """Return the round's runs in groups that run together: one run each, or interleaved all arms of a point."""
    if run.plan.interleave is None:
        return [[step] for step in round_.steps]
    points = dict.fromkeys(step.point for step in round_.steps)
    return [[step for step in round_.steps if step.point == point] for point in points]


def _flag_bursts(samples: list[Sample], events: EventSink) -> list[Sample]:
    """Judge all runs by the disturbance rule, after the session's medians are known."""
    bursts = find_bursts(samples)
    flagged = []
    for sample in samples:
        why = bursts.get((sample.arm, sample.point, sample.round), "") if sample.kind == "measured" else ""
        if why and not sample.flags:
            events.take(RunFlagged(sample.arm, sample.point, sample.round, why))
        flagged.append(replace(sample, flags=why or sample.flags))
    return flagged


def _natures(samples: list[Sample]) -> list[Fact]:
    """Return, for the record, the arms whose flagged runs are not rerun."""
    unrepeated = own_nature(samples, find_bursts(samples))
    return [
        NO_RERUN.fact(f"{why}: caused by the arm itself", " at ".join(filter(None, key)))
        for key, why in unrepeated.items()
    ]
