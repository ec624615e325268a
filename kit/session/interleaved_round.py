"""The arms of a block by turns: all are placed, then phase by phase they run in slices, and each flushes by itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial

from kit.core.errors import MachineError, RunError, TimedOut
from kit.core.limit import Deadline
from kit.host.freezer import Freezer
from kit.host.rest import IdleRate
from kit.model.plan import PlanStep
from kit.model.sample import Sample
from kit.model.scenario import Command
from kit.probe import spin
from kit.session.caches import drop_caches
from kit.session.context import RunContext
from kit.session.interleave import OwnClock, Underway, interleave
from kit.session.measure import counters_of, flushed
from kit.session.run import Run
from kit.session.workload import Saying, last_words

#: Makes the deadline of what begins now; given seconds that it may take by itself, or None.
Deadlines = Callable[[float | None], Deadline | None]


@dataclass(frozen=True, eq=False)
class _Turner:
    """One of those that take turns. ``clock``: runs while its own place is made, or anything in it goes on."""

    run: Run
    clock: OwnClock


def run_interleaved(
    steps: Sequence[PlanStep], context: RunContext, idle: IdleRate, deadline: Deadlines, seconds: float
) -> list[Sample]:
    """One run of each arm, by turns of so many seconds. Their phases go in step: none begins its next one before all
    have ended and flushed this one, so that no arm's writes meet another phase of another arm."""
    probe = context.bench.setting.probe
    order = random.Random(f"{context.plan.seed}/{steps[0].block}/{steps[0].point}/{steps[0].repeats}")
    until = deadline(None)
    with ExitStack() as stack:
        runs = [stack.enter_context(Run(step, context)) for step in steps]
        turners = []
        for run in runs:
            with run.noting():
                run.make_place(partial(deadline, context.plan.timeout))
                turners.append(_Turner(run, OwnClock(run.place.deadline, until)))
        _settle(_able(turners), context)
        before = spin(probe)
        for command in runs[0].workload.scenario.phases:
            _run_phase(command, _able(turners), seconds, order, idle)
        after = spin(probe)
        for run in runs:
            run.spins = before, after
    return [run.sample() for run in runs]


def _settle(turners: Sequence[_Turner], context: RunContext) -> None:
    """As ``settle`` does for one run, for all of them at once."""
    for turner in turners:
        with turner.run.noting():
            turner.run.place.sync()
    if context.plan.cache == "cold":
        drop_caches()


def _able(turners: Sequence[_Turner]) -> list[_Turner]:
    return [turner for turner in turners if not turner.run.error]


def _run_phase(
    command: Command, turners: Sequence[_Turner], seconds: float, order: random.Random, idle: IdleRate
) -> None:
    with ExitStack() as stack:
        begun = []
        for turner in turners:
            with turner.run.noting():
                begun.append((turner, *_begin(turner, command, stack)))
        interleave([underway for _, _, underway in begun], seconds, order)
        for turner, saying, underway in begun:
            with turner.run.noting():
                _finish(turner, command, saying, underway, idle)


def _begin(turner: _Turner, command: Command, stack: ExitStack) -> tuple[Saying, Underway]:
    """Freeze the place and ask for the command: it begins with its first turn. Whatever ends the stack thaws it."""
    run = turner.run
    if run.place.cgroup is None:
        raise MachineError("it has no control group", "--interleave off")
    freezer = Freezer.of(run.place.cgroup, *([run.place.daemons] if run.place.daemons else []))
    saying = stack.enter_context(Saying(run.logfile))
    stack.callback(_let_go, freezer)
    freezer.freeze()
    run.tell(command.name)
    run.place.start(run.workload.words(command, run.place), command.cwd, saying.output)
    return saying, Underway(run.place, freezer, turner.clock)


def _finish(turner: _Turner, command: Command, saying: Saying, underway: Underway, idle: IdleRate) -> None:
    """Its daemons run on while it flushes, as they do where nobody else has a turn."""
    run = turner.run
    underway.note_rest(counters_of(run.place))  # while others had their last turns, and flushed
    try:
        work = underway.work
    except TimedOut as reason:
        run.fail(last_words(f"{command.name} {reason.message}", run.logfile))
        return
    turner.clock.go()
    underway.freezer.thaw()
    phase = flushed(command.name, run.place, work, idle)
    phase, error = run.workload.read(command, phase, run.place, saying, underway.own_time)
    run.phases.append(phase)
    run.fail(error)
    underway.freezer.freeze()
    turner.clock.stop()


def _let_go(freezer: Freezer) -> None:
    with suppress(RunError):  # the arm is dead, its group gone
        freezer.thaw()
