"""The interleaved arms of a round: all sandboxes are made first. Then each phase runs in slices, and each arm flushes
alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial

from kit.core.deadline import Deadline
from kit.core.errors import MachineError, RunError, TimedOut
from kit.host.cgroup.freezer import Freezer
from kit.host.cgroup.idle_load import IdleRate
from kit.host.cgroup.memory import watch_memory
from kit.model.plan import PlanStep
from kit.model.sample import Sample
from kit.model.scenario import Command
from kit.probe import spin
from kit.session.measure.context import RunContext
from kit.session.measure.interleave import OwnClock, Underway, interleave
from kit.session.measure.phase import counters_of, flushed
from kit.session.measure.phase_log import PhaseLog
from kit.session.measure.run import Run
from kit.session.measure.workload import last_words
from kit.session.setup.caches import drop_caches

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
