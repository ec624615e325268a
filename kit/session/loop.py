"""The session: place → run → store for every step of a plan. The order of steps is written down here alone."""

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

from kit.analysis.burst import find_bursts, own_nature
from kit.core.limit import Deadline, run_deadline
from kit.core.paths import Paths
from kit.core.private import make_private, passable_mode
from kit.core.redact import RedactedFormatter
from kit.engines import Setting
from kit.host.cgroup import Cgroup
from kit.host.interrupt import checkpoint, interrupts_held
from kit.host.journal import Journal
from kit.host.leftovers import clean
from kit.host.lock import machine_lock
from kit.host.namespace import enter_private_mounts
from kit.host.rest import IdleRate, IdleWatch
from kit.model.fact import NO_REPEATS, STOPPED, Fact
from kit.model.plan import PlanStep
from kit.model.sample import TRACED, Sample
from kit.model.session import DONE, FAILED, Session, check_session_id
from kit.probe import probe_binary
from kit.session.caches import drop_caches
from kit.session.cleanups import CLEANUPS
from kit.session.context import Bench, Keeper, Observer, RunContext
from kit.session.interleaved_round import run_interleaved
from kit.session.run import run_whole
from kit.session.schedule import Block, End, Schedule
from kit.session.workers import one_at_a_time


@contextmanager
def held_machine(name: str, paths: Paths, wait: bool, observer: Observer) -> Iterator[Bench]:
    """Hold the machine: lock, leftovers of dead sessions cleaned, private mounts, run directory, control group.

    Interrupts wait for ``interruptible``: what is made here and in the block is undone, whenever they come."""
    check_session_id(name)
    mode = passable_mode()
    with interrupts_held(), ExitStack() as stack:
        stack.enter_context(machine_lock(paths.lock, name, wait, observer.tell))
        make_private(paths.state, mode)
        cleaned = clean(paths.journals, CLEANUPS)
        for line in (*(f"cleaned up after {line}" for line in cleaned.undone), *cleaned.left):
            observer.tell(line)
        make_private(paths.data)
        stack.enter_context(_session_log(paths.logs(name) / "session.log"))
        if os.geteuid() == 0:
            enter_private_mounts()
        journal = Journal(paths.journals / f"{name}.jsonl", CLEANUPS)
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
    warm = run.plan.cache == "warm" and not run.plan.fresh
    if warm:
        run.places.read_all()
    watch = IdleWatch(run.observer.tell)
    idle = watch.first()
    session = session.with_facts(watch.facts())
    run.store.update(session)
    samples = list(session.samples)
    if _is_measured(samples):
        return replace(session, status=DONE)
    pace = Pace(left if run.plan.budget is not None else lambda: None)  # another limit ends no run
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
            if warm and run.plan.interleave is not None:
                run.places.read_anew(random.Random(f"{run.plan.seed}/{block.number}/{block.steps[0].repeats}"))
            idle = watch.again(pace.mean * len(block.steps))
        watch.note_round(block.number)
        samples += run_block(session, block, run, idle, pace)
        if all(sample.status != "ok" for sample in samples):
            run.observer.tell("every arm failed: the rest of the plan is left undone")
            return replace(session, status=FAILED, samples=tuple(samples))
    facts = [*watch.facts(), *_natures(samples), STOPPED.fact(block.reason)]
    return _ended(replace(session.with_facts(facts), samples=tuple(samples)), run, block.reason)


def _ended(session: Session, run: RunContext, reason: str) -> Session:
    if not session.samples:
        run.observer.tell(f"nothing was measured: {reason}; to make ready counts, to build or fetch does not")
    session = replace(session, status=DONE if session.samples else FAILED)
    run.store.update(session)
    return session


def _is_measured(samples: Sequence[Sample]) -> bool:
    """Whether a session was stopped in its traced rounds: with a budget it would go on measuring otherwise."""
    return any(sample.kind == TRACED for sample in samples)


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

    def add(self, seconds: float, runs: int) -> None:
        """Of runs that were made together."""
        self.runs += runs
        self.seconds += seconds
        self.longest = max(self.longest, seconds)

    @property
    def over(self) -> bool:
        left = self.left()
        return left is not None and left <= 0

    def deadline(self, timeout: float | None) -> Deadline | None:
        """Of a run, or of several that are made together, that begins now."""
        return run_deadline(time.monotonic(), timeout, self.left(), self.longest)


def run_block(session: Session, block: Block, run: RunContext, idle: IdleRate, pace: Pace) -> Iterator[Sample]:
    """Its runs, as long as the budget lasts, each stored when it is over."""
    for steps in _together(block, run):
        if pace.over:
            return
        checkpoint()
        began = time.monotonic()
        samples = (
            [run_whole(steps[0], run, idle, partial(pace.deadline, run.plan.timeout))]
            if run.plan.interleave is None
            else run_interleaved(steps, run, idle, pace.deadline, run.plan.interleave)
        )
        pace.add(time.monotonic() - began, len(steps))
        for step, sample in zip(steps, samples, strict=True):
            run.store.add_sample(session.id, sample)
            run.observer.finished(step, sample)
            yield sample


def _together(block: Block, run: RunContext) -> list[Sequence[PlanStep]]:
    """The block's runs as they are made: one after the other; by turns, all arms at a point together."""
    if run.plan.interleave is None:
        return [[step] for step in block.steps]
    points = dict.fromkeys(step.point for step in block.steps)
    return [[step for step in block.steps if step.point == point] for point in points]


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
