"""One run of one arm, from its place to its sample."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType

from kit.core.errors import KitError, said_by_system
from kit.core.limit import Deadline
from kit.engines import Place
from kit.host.rest import IdleRate
from kit.model.arm import Arm
from kit.model.plan import PlanStep
from kit.model.sample import RUN_ORDER, Phase, Sample, run_order
from kit.probe import Spin, spin
from kit.session.background import Beside, Load
from kit.session.caches import drop_caches
from kit.session.context import Places, RunContext
from kit.session.runlog import cut_middle, log_name
from kit.session.tracing import Tracing


class Run:
    """Use as a context manager: at its end the place is released. A failure of the workload or the arm, in a block of
    ``noting``, or one to release it, is kept as ``error``; what it has measured until then is in its sample too."""

    def __init__(self, step: PlanStep, context: RunContext) -> None:
        bench = context.bench
        self.step = step
        self.workload = context.workloads[step.point]
        self.phases: list[Phase] = []
        self.spins: Sequence[Spin] = ()
        self._errors: list[str] = []
        self.load = ""  # what the background load did meanwhile
        self.logfile = bench.paths.logs(bench.setting.session) / log_name(step)
        self._context = context
        self._engine = Stopwatch()
        self._stack = ExitStack()
        self._place: Place | None = None
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
    def place(self) -> Place:
        assert self._place, "make_place comes first"
        return self._place

    def tell(self, phase: str) -> None:
        self._context.observer.running(self.step, phase)

    @property
    def error(self) -> str:
        """Why it has failed, or ''."""
        return "\n".join(self._errors)

    def fail(self, said: str) -> None:
        """With what a step of the workload said; '' where it did not fail."""
        self._errors += [said] if said else []

    @contextmanager
    def noting(self) -> Iterator[None]:
        """What keeps the block from its end is why the run has failed."""
        try:
            yield
        except KitError as error:
            self.fail(error.message)
        except OSError as error:
            self.fail(said_by_system(error))

    def make_place(self, deadline: Callable[[], Deadline | None]) -> None:
        """A fresh place with the inputs in it, and the untimed steps. ``deadline``: of the run, from then on. Raises
        RunError, OSError."""
        context = self._context
        self.tell("place")
        make = context.places.fresh_place if context.plan.fresh else context.places.place
        with self._engine:
            place = self.workload.fill(self._stack.enter_context(_placed(make, self.step.arm)))
        load = context.load.group if context.load else None
        self._place = replace(place, deadline=deadline(), load=load, session=context.group)
        self.fail(self.workload.prepare(self.place, self.logfile))

    def settle(self) -> None:
        settle(self.place, self._context.places, self._context.plan.cache)

    def sample(self) -> Sample:
        cut_middle(self.logfile)
        step, load, spins = self.step, self._context.load, self.spins
        turn = self._context.plan.interleave
        order = () if turn is None else ((RUN_ORDER, run_order(turn)),)
        return Sample(
            str(step.arm),
            step.block,
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
            repeats=step.repeats,
        )


def run_whole(step: PlanStep, context: RunContext, idle: IdleRate, deadline: Callable[[], Deadline | None]) -> Sample:
    """From start to end, with nothing of the session's beside it but its background load."""
    probe = context.bench.setting.probe
    spins: list[Spin] = []
    with Run(step, context) as run:
        run.spins = spins
        with run.noting():
            run.make_place(deadline)
            spins.append(spin(probe))
            with _beside(context.load, step.arm) as beside:
                run.settle()
                on_phase = partial(context.observer.running, step)
                tracing = Tracing(context.tracers, step, context.group, context.bench.setting.run, run.logfile)
                if not run.error:
                    run.fail(run.workload.run(run.place, run.logfile, run.phases, idle, on_phase, tracing))
            run.load = beside.text if beside else ""
            spins.append(spin(probe))
    return run.sample()


@contextmanager
def _placed(make: Callable[[Arm], AbstractContextManager[Place]], arm: Arm) -> Iterator[Place]:
    """A place of which nothing runs on beside the next, also where it can't be released."""
    made: Place | None = None
    try:
        with make(arm) as place:
            made = place
            yield place
    except BaseException:
        if made:
            made.kill()
        raise


@dataclass
class Stopwatch:
    """Seconds inside its blocks, however they end."""

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
