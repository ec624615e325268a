"""The pilot run: one run before a session's arms are prepared. It shows the duration of a run, how the workload waits
for processes that would not be frozen with it, and whether it fails if it is frozen."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from kit.analysis.runs.waiting import SHORTEST, Waiting, waiting
from kit.arms.engines import Sandbox
from kit.core.deadline import Deadline, run_deadline
from kit.core.errors import KitError, RunError
from kit.host.cgroup.cgroup import Cgroup
from kit.host.cgroup.freezer import Freezer, waits
from kit.host.cgroup.idle_load import NOT_WATCHED
from kit.model.arm import Arm, variant_of
from kit.model.plan import PlanStep
from kit.model.sample import Sample
from kit.session.measure.context import RunContext
from kit.session.measure.run import Run

#: Seconds after which a pilot run is ended: by then it has shown how the workload waits.
LONGEST_PILOT = 120.0
#: Seconds between two observations of the workload.
_STEP = 0.005


class WorkloadFailedError(Exception):
    """No arm can run the workload. ``samples``: the failed pilot runs."""

    def __init__(self, samples: tuple[Sample, ...]) -> None:
        super().__init__()
        self.samples = samples


@dataclass(frozen=True)
class Pilot:
    """The result of a pilot run of ``arm``. ``seconds``: its real time, without untimed steps. ``error``: why it
    failed, or ''. ``ended``: the kit ended it early, so a run takes longer. ``fails_frozen``: it failed while it was
    frozen and thawed again and again, but not without that. ``failures``: the failed runs, if it failed on another arm
    too or there is no other: then no arm can run the workload."""

    arm: str
    seconds: float
    waiting: Waiting
    error: str = ""
    ended: bool = False
    fails_frozen: bool = False
    failures: tuple[Sample, ...] = ()


def pilot_runs(context: RunContext) -> list[Pilot]:
    """Run the first arm that can run here, once, on a filesystem of its own that is removed afterwards. Each of several
    commands has one run. Empty if no arm can run."""
    context = replace(context, plan=replace(context.plan, fresh=True, interleave=None))
    alike: dict[object, list[Arm]] = {}
    for arm in context.plan.arms:
        alike.setdefault(variant_of(arm), []).append(arm)
    return [pilot for arms in alike.values() if (pilot := _first_run(arms, context))]


def _first_run(arms: Sequence[Arm], context: RunContext) -> Pilot | None:
    for number, arm in enumerate(arms):
        try:
            pilot, _ = _run(arm, context, frozen=True)
            if not pilot.error:
                return pilot
            again, sample = _run(arm, context, frozen=False)
        except KitError:
            continue  # the preparation of arms reports the reason
        if not again.error:
            return replace(again, fails_frozen=True)
        if len(context.plan.points) > 1:  # at another point the workload may not fail
            return again
        return replace(again, failures=_failures(sample, arm, arms[number + 1 :], context))
    return None


def _failures(failure: Sample, arm: Arm, others: Sequence[Arm], context: RunContext) -> tuple[Sample, ...]:
    """Return the failed runs on an arm and on another one, of another placement if possible; none if that one can run
    the workload."""
    different = sorted(others, key=lambda other: other.placement == arm.placement)
    for other in (other for other in different if not other.control):
        try:
            pilot, sample = _run(other, context, frozen=False)
        except KitError:
            continue
        return (failure, sample) if pilot.error else ()
    return (failure,)


def _run(arm: Arm, context: RunContext, frozen: bool) -> tuple[Pilot, Sample]:
    """Run the pilot. ``frozen``: freeze and thaw it as often as the shortest slices would. Raises KitError if the arm's
    sandbox can't be made."""
    step, looks, late = PlanStep(0, arm, context.plan.points[0]), _Looks(frozen), False
    with Run(step, context) as run:
        run.logfile.unlink(missing_ok=True)  # of an earlier pilot run
        run.make_sandbox(partial(_deadline, context))
        run.settle()
        if not run.error:
            with run.noting():
                run.measure(NOT_WATCHED, looks)
            late = was_ended(run.sandbox.deadline, context.plan.timeout, time.monotonic())
    seconds = sum(phase.real or 0.0 for phase in run.phases)
    pilot = Pilot(
        str(arm),
        max(seconds, looks.seconds) if late else seconds,
        waiting(looks.seen, looks.seconds),
        "" if late else run.error,
        late,
    )
    return pilot, run.sample()


def was_ended(deadline: Deadline | None, timeout: float | None, now: float) -> bool:
    """Return whether the kit ended a pilot run early. A run beyond the user's own ``timeout`` (seconds) has failed.
    ``now``: when it ended, by time.monotonic()."""
    return deadline is not None and now >= deadline.at and (timeout is None or timeout > LONGEST_PILOT)


def _deadline(context: RunContext) -> Deadline | None:
    return run_deadline(time.monotonic(), min(LONGEST_PILOT, context.plan.timeout or LONGEST_PILOT), None, 0.0)


@dataclass
class _Looks:
    """Observes a sandbox's control groups at equal intervals while commands run, but not while their data are flushed:
    then nothing of the workload runs. ``frozen``: freezes and thaws them meanwhile. ``seconds``: the commands' total
    duration."""

    frozen: bool = False
    seen: list[bool] = field(default_factory=list)
    seconds: float = 0.0

    @contextmanager
    def around(self, phase: str, sandbox: Sandbox) -> Iterator[tuple[()]]:
        groups = [group for group in (sandbox.cgroup, sandbox.daemons) if group]
        ended = threading.Event()
        freezer = Freezer.of(*groups) if self.frozen else None
        thread = threading.Thread(target=self._look, args=(groups, freezer, ended), name="pilot", daemon=True)
        thread.start()
        try:
            yield ()
        finally:
            ended.set()
            thread.join()

    def _look(self, groups: Sequence[Cgroup], freezer: Freezer | None, ended: threading.Event) -> None:
        began = freeze_time = time.monotonic()
        while not ended.wait(_STEP):
            self.seen.append(waits(groups))
            if freezer and time.monotonic() - freeze_time > SHORTEST:
                _freeze_once(freezer)
                freeze_time = time.monotonic()
        self.seconds += time.monotonic() - began


def _freeze_once(freezer: Freezer) -> None:
    with suppress(RunError):  # the group ended with its command
        try:
            freezer.freeze()
        finally:
            freezer.thaw()
