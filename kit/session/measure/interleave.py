"""Interleaves arms: of several commands, each in its own sandbox, one runs for a time slice while the others are
frozen. Changes of the machine's speed within seconds affect all of them equally."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from kit.arms.engines import Sandbox
from kit.arms.probe import Timing, spin
from kit.core.deadline import Deadline
from kit.core.errors import SESSION_LOG, MachineError, RunError, TimedOut
from kit.host.cgroup.counters import Counters, device_writes
from kit.host.cgroup.freezer import Freezer
from kit.host.cgroup.idle_load import IdleRate
from kit.host.cgroup.memory import MemoryWatch, PeakMemory, watch_memory
from kit.model.plan import PlanStep
from kit.model.sample import Sample
from kit.model.scenario import Command
from kit.session.measure.context import RunContext
from kit.session.measure.phase import Work, counters_of, flushed
from kit.session.measure.phase_log import PhaseLog
from kit.session.measure.run import Run
from kit.session.measure.workload import last_words
from kit.session.setup.caches import drop_caches

#: Seconds between two checks whether the only remaining arm is alive.
_LOOK = 1.0
#: The share by which slices are longer or shorter.
_JITTER = 0.2


@dataclass
class OwnClock:
    """An arm's own clock, which stops during the slices of others. ``limit``: seconds of this clock. ``until``: limit
    of all arms together. ``stopped``: when it stopped, by time.monotonic()."""

    limit: Deadline | None = None
    until: Deadline | None = None
    stopped: float = field(default_factory=time.monotonic)

    def go(self) -> tuple[float, float]:
        """Start the clock; return when it stopped, and now."""
        now = time.monotonic()
        self.limit = self.limit and self.limit.later(now - self.stopped)
        return self.stopped, now

    def stop(self) -> None:
        self.stopped = time.monotonic()

    def over(self) -> str:
        """Return why the arm must end, or ''."""
        now = time.monotonic()
        return next((bound.text for bound in (self.limit, self.until) if bound and now >= bound.at), "")


@dataclass(eq=False)
class Underway:
    """A requested command in a frozen sandbox, with the figures of its slices. ``rests``: the beginning and end of each
    freeze between two slices, by time.monotonic()."""

    sandbox: Sandbox
    freezer: Freezer
    clock: OwnClock = field(default_factory=OwnClock)
    memory: MemoryWatch | None = None
    rests: list[tuple[float, float]] = field(default_factory=list)
    others_bytes: float = 0.0
    spent: Counters | None = None
    slices: list[tuple[float, float]] = field(default_factory=list)  # the beginning and end of each slice, Unix time
    timing: Timing | None = None
    error: RunError | None = None
    _first: Counters | None = field(default=None, repr=False)  # as the first slice began
    _last: Counters | None = field(default=None, repr=False)

    @property
    def ended(self) -> bool:
        return self.timing is not None or self.error is not None

    def turn(self, seconds: float | None, others: Sequence[str]) -> None:
        """Run for a duration, or to the end of the command. ``others``: devices of the frozen arms."""
        before, theirs = counters_of(self.sandbox), device_writes(others)
        self._first = self._first or before
        pause = self.clock.go()
        if self.slices:
            self.rests.append(pause)
        began = time.time()
        try:
            self.freezer.thaw()
            self.timing = self._wait(seconds)
            self.freezer.freeze()
        except RunError as error:
            self.error = error
        self.slices.append((began, time.time()))
        self.clock.stop()
        self._last = counters_of(self.sandbox)
        spent = self._last.since(before)
        self.spent = self.spent + spent if self.spent else spent
        self.others_bytes += device_writes(others) - theirs

    def _wait(self, seconds: float | None) -> Timing | None:
        """Wait for the command's end, at most for a duration. Raises RunError if the arm died or is past its
        deadline."""
        sandbox, over = self.sandbox, time.monotonic() + (seconds or 0.0)
        while not sandbox.probe.answers(_LOOK if seconds is None else max(0.0, over - time.monotonic())):
            late = self.clock.over()
            if late:
                sandbox.end()
                raise TimedOut(late)
            reason = sandbox.dead()
            if reason:
                raise RunError(f"the arm died: {reason}", SESSION_LOG)
            if seconds is not None:
                return None
        return sandbox.probe.timing(sandbox.dead)

    def own_time(self, at: float) -> float:
        """Return the seconds for which the command had run at a Unix time. Time before its first slice and in freezes
        does not count."""
        return sum(min(at, ended) - began for began, ended in self.slices if began < at)

    def note_rest(self, now: Counters) -> None:
        """Record that the command was frozen from its last slice until now."""
        self._last = now

    def _frozen_until(self, at: float) -> float:
        """Return the seconds for which the command had been frozen at a time.monotonic()."""
        return sum(go - stop for stop, go in self.rests if go <= at)

    @property
    def work(self) -> Work:
        """Return the result of the command. Raises the RunError or TimedOut with which it ended.

        Its figures of the device and the filesystem, which are the arm's own, include all that changed while it was
        frozen."""
        if self.error:
            raise self.error
        assert self.timing and self.spent and self._first and self._last, "it has not ended"
        # A command may end during the freeze of its group: its answer is read one freeze later, which does not count.
        timing = self.timing
        frozen_for = self._frozen_until(timing.ended)
        since = frozen_for - self._frozen_until(timing.ended - timing.spread)
        timing = replace(timing, real=timing.real - frozen_for, spread=timing.spread - since)
        if frozen_for:  # each freeze and thaw adds two to a process that sleeps, one to a process that runs
            timing = replace(timing, voluntary_switches=None)
        whole = self._last.since(self._first)
        frozen = whole.since(self.spent)
        spent = replace(self.spent, write_bytes=whole.write_bytes, space=whole.space, inodes=whole.inodes)
        memory = self.memory.read() if self.memory else PeakMemory()
        return Work(timing, spent, len(self.slices), frozen.write_bytes, self.others_bytes, memory)


def interleave(underway: Sequence[Underway], seconds: float, order: random.Random) -> None:
    """Give each command slices of about N seconds until all have ended. The order is random each time, so no arm always
    follows the same one. The lengths vary, so no periodic activity of the machine stays in step with an arm."""
    last: Underway | None = None
    while unfinished := [arm_run for arm_run in underway if not arm_run.ended]:
        for arm_run in _drawn(unfinished, last, order):
            length = None if len(unfinished) == 1 else seconds * order.uniform(1 - _JITTER, 1 + _JITTER)
            arm_run.turn(length, _devices(underway, arm_run))
            last = arm_run


def _drawn(left: Sequence[Underway], last: Underway | None, order: random.Random) -> list[Underway]:
    """Return a random order. The arm with the last slice is not first again: its slice would have twice the length."""
    drawn = list(left)
    order.shuffle(drawn)
    return drawn[1:] + drawn[:1] if drawn[0] is last else drawn


def _devices(underway: Sequence[Underway], mine: Underway) -> list[str]:
    return [
        arm_run.sandbox.backing.device for arm_run in underway if arm_run is not mine and arm_run.sandbox.backing.device
    ]


#: Returns the deadline of a step that begins now, given the step's own limit in seconds, or None.
Deadlines = Callable[[float | None], Deadline | None]


@dataclass(frozen=True, eq=False)
class _Turner:
    """One of the interleaved arms. ``clock``: runs while its own sandbox is made, or while anything runs in it."""

    run: Run
    clock: OwnClock


def run_interleaved(
    steps: Sequence[PlanStep], context: RunContext, idle: IdleRate, deadline: Deadlines, seconds: float
) -> list[Sample]:
    """Run each arm once, in slices of N seconds. The arms keep in step: no arm begins a phase before all arms have
    ended and flushed the last one. So no arm's writes overlap with a different phase of another arm."""
    probe = context.lease.setting.probe
    order = random.Random(f"{context.plan.seed}/{steps[0].round}/{steps[0].point}/{steps[0].rerun_of}")
    until = deadline(None)
    with ExitStack() as stack:
        runs = [stack.enter_context(Run(step, context)) for step in steps]
        turners = []
        for run in runs:
            with run.noting():
                run.make_sandbox(partial(deadline, context.plan.timeout))
                turners.append(_Turner(run, OwnClock(run.sandbox.deadline, until)))
        _settle(_able(turners), context)
        before = spin(probe)
        for command in runs[0].workload.scenario.phases:
            _run_phase(command, _able(turners), seconds, order, idle)
        after = spin(probe)
        for run in runs:
            run.spins = before, after
    return [run.sample() for run in runs]


def _settle(turners: Sequence[_Turner], context: RunContext) -> None:
    """Settle all runs at once, as ``settle`` does for one run."""
    for turner in turners:
        with turner.run.noting():
            turner.run.sandbox.sync()
    if context.plan.cache == "cold":
        drop_caches()


def _able(turners: Sequence[_Turner]) -> list[_Turner]:
    return [turner for turner in turners if not turner.run.error]


def _run_phase(
    command: Command, turners: Sequence[_Turner], seconds: float, order: random.Random, idle: IdleRate
) -> None:
    with ExitStack() as stack:
        started = []
        for turner in turners:
            with turner.run.noting():
                started.append((turner, *_begin(turner, command, stack)))
        interleave([underway for _, _, underway in started], seconds, order)
        for turner, log, underway in started:
            with turner.run.noting():
                _finish(turner, command, log, underway, idle)


def _begin(turner: _Turner, command: Command, stack: ExitStack) -> tuple[PhaseLog, Underway]:
    """Freeze the sandbox and request the command: it begins with its first slice. The stack's end thaws the sandbox."""
    run = turner.run
    if run.sandbox.cgroup is None:
        raise MachineError("the arm has no control group to freeze", "use --interleave off")
    memory = stack.enter_context(watch_memory(run.sandbox.cgroup, run.sandbox.daemons))
    freezer = Freezer.of(run.sandbox.cgroup, *([run.sandbox.daemons] if run.sandbox.daemons else []))
    log = stack.enter_context(PhaseLog(run.logfile))
    stack.callback(_let_go, freezer)
    freezer.freeze()
    run.tell(command.name)
    run.sandbox.start(run.workload.words(command, run.sandbox), command.cwd, log.output)
    return log, Underway(run.sandbox, freezer, turner.clock, memory)


def _finish(turner: _Turner, command: Command, log: PhaseLog, underway: Underway, idle: IdleRate) -> None:
    """Flush while the arm's daemons run, as they do without interleaving."""
    run = turner.run
    underway.note_rest(counters_of(run.sandbox))  # during the last slices and flushes of the others
    try:
        work = underway.work
    except TimedOut as reason:
        run.fail(last_words(f"{command.name} {reason.message}", run.logfile))
        return
    turner.clock.go()
    underway.freezer.thaw()
    phase = flushed(command.name, run.sandbox, work, idle)
    run.add(command, phase, log, underway.own_time)
    underway.freezer.freeze()
    turner.clock.stop()


def _let_go(freezer: Freezer) -> None:
    with suppress(RunError):  # the arm is dead, its group has ended
        freezer.thaw()
