"""The pilot run: one run before a session's arms are made ready. It shows how long a run takes, and how the workload
waits for what would not be frozen with it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from kit.analysis.waiting import Waiting, waiting
from kit.core.errors import KitError
from kit.core.limit import Deadline, run_deadline
from kit.engines import Place
from kit.host.cgroup import Cgroup
from kit.host.rest import IdleRate
from kit.host.task_states import waits
from kit.model.plan import PlanStep
from kit.session.context import RunContext
from kit.session.run import Run
from kit.session.tracing import Tracing

#: Seconds after which a pilot run is ended: it has shown by then how the workload waits.
LONGEST_PILOT = 120.0
#: Seconds between two looks at what the workload does.
_STEP = 0.005
#: CPU outside the run is no figure of a pilot run.
_NOT_WATCHED = IdleRate(0.0, math.inf)


@dataclass(frozen=True)
class Pilot:
    """What a pilot run of ``arm`` showed. ``seconds``: its real time, without what is not timed. ``error``: why it
    failed, or ''. ``ended``: it was ended when it had shown enough, so a run takes longer."""

    arm: str
    seconds: float
    waiting: Waiting
    error: str = ""
    ended: bool = False


def pilot_run(context: RunContext) -> Pilot | None:
    """Run the first arm that can run here, once, on a filesystem of its own that is removed afterwards. None where no
    arm can."""
    context = replace(context, plan=replace(context.plan, fresh=True, interleave=None))
    for arm in context.plan.arms:
        step = PlanStep(0, arm, context.plan.points[0])
        try:
            return _run(step, context)
        except KitError:
            continue  # why it can't run is said when the arms are made ready
    return None


def _run(step: PlanStep, context: RunContext) -> Pilot:
    """Raises KitError where the arm can't be placed."""
    looks, late = _Looks(), False
    with Run(step, context) as run:
        run.make_place(partial(_deadline, context))
        run.settle()
        if not run.error:
            tracing = Tracing((), step, context.group, context.bench.setting.run, run.logfile)
            on_phase = partial(context.observer.running, step)
            with run.noting(), looks.at(run.place):
                run.fail(run.workload.run(run.place, run.logfile, run.phases, _NOT_WATCHED, on_phase, tracing))
            late = was_ended(run.place.deadline, context.plan.timeout, time.monotonic())
    seconds = sum(phase.real or 0.0 for phase in run.phases)
    return Pilot(
        str(step.arm),
        max(seconds, looks.seconds) if late else seconds,
        waiting(looks.seen, looks.seconds),
        "" if late else run.error,
        late,
    )


def was_ended(deadline: Deadline | None, timeout: float | None, now: float) -> bool:
    """Return whether a pilot run was ended because it had shown enough; one that outlives the user's own ``timeout``
    (seconds) has failed. ``now``: when it ended, by time.monotonic()."""
    return deadline is not None and now >= deadline.at and (timeout is None or timeout > LONGEST_PILOT)


def _deadline(context: RunContext) -> Deadline | None:
    return run_deadline(time.monotonic(), min(LONGEST_PILOT, context.plan.timeout or LONGEST_PILOT), None, 0.0)


@dataclass
class _Looks:
    """Looks at a place's control groups, at equal distances. ``seconds``: for how long."""

    seen: list[bool] = field(default_factory=list)
    seconds: float = 0.0

    @contextmanager
    def at(self, place: Place) -> Iterator[None]:
        groups = [group for group in (place.cgroup, place.daemons) if group]
        ended = threading.Event()
        thread = threading.Thread(target=self._look, args=(groups, ended), name="pilot", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _look(self, groups: Sequence[Cgroup], ended: threading.Event) -> None:
        began = time.monotonic()
        while not ended.wait(_STEP):
            self.seen.append(waits(groups))
        self.seconds = time.monotonic() - began
