"""One run of one arm, from its sandbox to its sample."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from types import TracebackType

from kit.arms.engines import Sandbox
from kit.arms.engines.registry import Registry
from kit.arms.probe import Spin, spin
from kit.core.deadline import Deadline
from kit.core.errors import KitError, TimedOut, said_by_system
from kit.host.cgroup.idle_load import IdleRate
from kit.host.page_cache import counts_whole_folios
from kit.model.arm import Arm
from kit.model.plan import PlanStep
from kit.model.sample import RUN_ORDER, Phase, Sample, run_order
from kit.model.scenario import Command
from kit.session.measure.background import Beside, Load
from kit.session.measure.context import ArmProvider, RunContext
from kit.session.measure.phase import Observer, Tracing, measure_phase
from kit.session.measure.phase_log import PhaseLog, cut_middle, log_name
from kit.session.measure.workload import last_words
from kit.session.setup.caches import drop_caches, read_below


class Run:
    """One run; use it as a context manager, which releases the sandbox at its end. A failure of the workload or the arm
    inside ``noting``, or of the release, is kept as ``error``. The sample then contains the figures measured so far."""

    def __init__(self, step: PlanStep, context: RunContext) -> None:
        lease = context.lease
        self.step = step
        self.workload = context.workloads[step.point].of(step.arm)
        self.phases: list[Phase] = []
        self.spins: Sequence[Spin] = ()
        self._errors: list[str] = []
        self.load = ""  # events of the background load meanwhile
        self.logfile = lease.paths.logs(lease.setting.session) / log_name(step)
        self._context = context
        self._engine = Stopwatch()
        self._stack = ExitStack()
        self._sandbox: Sandbox | None = None
        self._registry: Registry | None = None
        self._started = time.time()
        self.logfile.parent.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tell("release")
        if error:
            self._stack.__exit__(kind, error, trace)
            return
        with self.noting(), self._engine:
            self._stack.close()

    @property
    def sandbox(self) -> Sandbox:
        assert self._sandbox, "make_sandbox comes first"
        return self._sandbox

    def tell(self, phase: str) -> None:
        self._context.show(self.step, phase)

    @property
    def error(self) -> str:
        """Return why the run has failed, or ''."""
        return "\n".join(self._errors)

    def fail(self, said: str) -> None:
        """Record the error of a workload's step; '' means that it succeeded."""
        self._errors += [said] if said else []

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Record an exception of the block as the reason of the run's failure."""
        try:
            yield
        except KitError as error:
            self.fail(error.message)
        except OSError as error:
            self.fail(said_by_system(error))

    def make_sandbox(self, deadline: Callable[[], Deadline | None]) -> None:
        """Make a new sandbox with the inputs in it, and run the untimed steps. ``deadline``: of the run, from then on.
        Raises RunError, OSError."""
        context = self._context
        self.tell("place")
        make = context.places.fresh_sandbox if context.plan.fresh else context.places.sandbox
        with self._engine:
            sandbox = self.workload.fill(
                self._stack.enter_context(_placed(partial(make, self.step.arm, self.workload.scenario.copies)))
            )
            self._registry = self._stack.enter_context(self.workload.registry(context.lease.setting))
        groups = (context.load and context.load.group, self._registry and self._registry.cgroup)
        self._sandbox = replace(
            sandbox,
            deadline=deadline(),
            registry=self._registry.address if self._registry else "",
            beside=tuple(group for group in groups if group),
            session=context.group,
            whole_folios=sandbox.backing.whole_folios or any(map(counts_whole_folios, sandbox.own)),
        )
        self.fail(self.workload.prepare(self.sandbox, self.logfile))
        if not self.error:
            self.workload.rehearse(self.sandbox)

    def settle(self) -> None:
        settle(self.sandbox, self._context.places, self._context.plan.cache)
        if self._registry:
            read_below(self._registry.directory)  # every arm pulls the same blobs from the page cache

    @property
    def commands(self) -> Iterator[Command]:
        """Yield the commands of the timed phases, until the run has failed."""
        return takewhile(lambda command: not self.error, self.workload.scenario.phases)

    @contextmanager
    def phase(self, command: Command) -> Iterator[PhaseLog]:
        """Announce a timed phase, and yield its log. The run fails if the block is past its deadline."""
        self.tell(command.name)
        with PhaseLog(self.logfile) as log:
            try:
                yield log
            except TimedOut as reason:
                self.fail(last_words(f"{command.name} {reason.message}", self.logfile))

    def add(self, command: Command, phase: Phase, log: PhaseLog, clock: Callable[[float], float] | None = None) -> None:
        """Add a finished phase, with its own report. ``clock``: as for Workload.read."""
        phase, error = self.workload.read(command, phase, self.sandbox, log, clock)
        self.phases.append(phase)
        self.fail(error)

    def measure(self, idle: IdleRate, observer: Observer) -> None:
        """Run the timed phases, one after the other. Raises RunError, OSError."""
        for command in self.commands:
            with self.phase(command) as log:
                words = self.workload.words(command, self.sandbox)
                phase = measure_phase(command.name, self.sandbox, words, command.cwd, log.output, idle, observer)
                self.add(command, phase, log)

    def sample(self) -> Sample:
        cut_middle(self.logfile)
        step, load, spins = self.step, self._context.load, self.spins
        turn = self._context.plan.interleave
        order = () if turn is None else ((RUN_ORDER, run_order(turn)),)
        return Sample(
            str(step.arm),
            step.round,
            step.kind,
            "failed" if self.error else "ok",
            self._started,
            phases=tuple(self.phases),
            calibration_before=spins[0].arithmetic if spins else None,
            calibration_after=spins[1].arithmetic if len(spins) > 1 else None,
            memory_before=spins[0].memory if spins else None,
            memory_after=spins[1].memory if len(spins) > 1 else None,
            engine_seconds=self._engine.seconds,
            error=self.error,
            log=str(self.logfile),
            digests=(*self.workload.digests(step.arm), *(load.digests if load else ()), *order),
            point=step.point,
            load=self.load,
            rerun_of=step.rerun_of,
        )


def run_whole(step: PlanStep, context: RunContext, idle: IdleRate, deadline: Callable[[], Deadline | None]) -> Sample:
    """Make a run from start to end; nothing but the session's background load runs beside it."""
    probe = context.lease.setting.probe
    spins: list[Spin] = []
    with Run(step, context) as run:
        run.spins = spins
        with run.noting():
            run.make_sandbox(deadline)
            spins.append(spin(probe))
            with _beside(context.load, step.arm) as beside:
                run.settle()
                tracing = Tracing(context.tracers, step, context.group, context.lease.scratch, run.logfile)
                run.measure(idle, tracing)
            run.load = beside.text if beside else ""
            spins.append(spin(probe))
    return run.sample()


@contextmanager
def _placed(make: Callable[[], AbstractContextManager[Sandbox]]) -> Iterator[Sandbox]:
    """Release a sandbox, and end everything in it before the next run, even if the release fails."""
    placed: Sandbox | None = None
    try:
        with make() as sandbox:
            placed = sandbox
            yield sandbox
    except BaseException:
        if placed:
            placed.kill()
        raise


@dataclass
class Stopwatch:
    """A stopwatch that adds the seconds of each block, however the block ends."""

    seconds: float = 0.0

    def __enter__(self) -> None:
        self.seconds -= time.monotonic()

    def __exit__(self, *error: object) -> None:
        self.seconds += time.monotonic()


def _beside(load: Load | None, arm: Arm) -> AbstractContextManager[Beside | None]:
    return load.beside(arm) if load else nullcontext()


def settle(sandbox: Sandbox, places: ArmProvider, cache: str) -> None:
    """Write back everything that the preparation or the previous run, perhaps on another filesystem, has left dirty.
    Otherwise its write-back and removal would be charged to this run. A cold run also drops the caches, if this machine
    permits that."""
    sandbox.sync()
    places.sync(but=sandbox.backing)
    if cache == "cold":
        drop_caches()
