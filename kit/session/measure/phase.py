"""Measures one phase: counters, the probe's run, counters, a sync of the backing filesystem, counters. Tracers are
attached outside the first two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import IO, Any, Protocol

from kit.arms.engines.sandbox import Sandbox
from kit.arms.probe.client import Timing
from kit.host.cgroup.cgroup import Cgroup
from kit.host.cgroup.counters import Counters, read_counters
from kit.host.cgroup.idle_load import IdleRate
from kit.host.cgroup.memory import PeakMemory, watch_memory
from kit.model.metric import MEASURED
from kit.model.plan import PlanStep
from kit.model.sample import Phase
from kit.parsers.figure import Reported
from kit.session.measure.tracer import Recording, Traced, Tracer


class Observer(Protocol):
    """Observes the commands of a run, and nothing else of it: no flush."""

    def around(self, phase: str, sandbox: Sandbox) -> AbstractContextManager[Sequence[Recording]]:
        """Observe during the block, and yield what is added to the phase. Raises RunError."""


@dataclass(frozen=True)
class Tracing:
    """The tracers of one run. ``group``: the session's; ``scratch``: a directory of its own; ``log``: the run's."""

    tracers: Sequence[Tracer]
    step: PlanStep
    group: Cgroup
    scratch: Path
    log: Path

    @contextmanager
    def around(self, phase: str, sandbox: Sandbox) -> Iterator[Sequence[Recording]]:
        """Attach all tracers for the length of the block. Raises RunError if one can't be attached."""
        step = self.step
        subject = Traced(str(step.arm), step.round, phase, sandbox.cgroup, self.group, self.scratch, self.log)
        with ExitStack() as stack:
            yield [stack.enter_context(tracer.around(subject)) for tracer in self.tracers]


def measure_phase(
    name: str,
    sandbox: Sandbox,
    argv: Sequence[str],
    cwd: str,
    output: IO[bytes],
    idle: IdleRate,
    observer: Observer | None = None,
) -> Phase:
    """Run one phase in a sandbox. ``observer`` begins before the first reading of counters. Raises RunError if the
    command can't be started or the arm dies."""
    observing = observer.around(name, sandbox) if observer else nullcontext(())
    with observing as recordings, watch_memory(sandbox.cgroup, sandbox.daemons) as memory:
        before = counters_of(sandbox)
        timing = sandbox.run(argv, cwd, output)
        after = counters_of(sandbox)
        work = Work(timing, after.since(before), memory=memory.read())
    phase = flushed(name, sandbox, work, idle, after)
    for recording in recordings:
        phase = recording.add_to(phase)
    return phase


def counters_of(sandbox: Sandbox) -> Counters:
    """Read all counters of a sandbox now."""
    backing = sandbox.backing
    return read_counters(sandbox.cgroup, backing.device, sandbox.beside, sandbox.session, backing.path)


@dataclass(frozen=True)
class Work:
    """The figures of a phase without its flush. ``slices``: see Figures; None if it ran without interruption."""

    timing: Timing
    spent: Counters
    slices: int | None = None
    frozen_write_bytes: float | None = None
    others_write_bytes: float | None = None
    memory: PeakMemory = field(default_factory=PeakMemory)


def flushed(name: str, sandbox: Sandbox, work: Work, idle: IdleRate, before: Counters | None = None) -> Phase:
    """Return the phase after its end and its write-back. ``before``: the counters now."""
    start = before or counters_of(sandbox)
    sandbox.sync()
    flush = counters_of(sandbox).since(start)
    timing = work.timing
    whole = work.spent + flush
    spent = replace(work.spent, space=whole.space, inodes=whole.inodes)
    figures = _metrics(timing) | _metrics(spent) | _metrics(work.memory)
    # Nobody counts what daemons write, and FUSE counts the pages of the arm's programs twice.
    if sandbox.daemons or sandbox.whole_folios:
        figures["dirtied_bytes"] = None
    return Phase(
        name=name,
        status="ok" if timing.ok else "failed",
        **figures,
        outside=_less_idle(work.spent, idle),
        flush=flush.clock,
        flush_bytes=flush.write_bytes,
        flush_cpu=_less_idle(flush, idle),
        reported=tuple(_of_copies(timing)),
        exit_code=timing.exit_code,
        signal=timing.signal,
        slices=work.slices,
        frozen_write_bytes=work.frozen_write_bytes,
        others_write_bytes=work.others_write_bytes,
    )


def _of_copies(timing: Timing) -> Iterator[Reported]:
    """Yield the figures of several copies that ran at once. They are times: a mean of rates over rounds would be too
    high."""
    if timing.copies > 1:
        yield Reported("time per copy", timing.real / timing.copies, "s")
        yield Reported("first copy's end to last's", timing.spread, "s")


def _metrics(read: Timing | Counters | PeakMemory) -> dict[str, Any]:
    """Return the fields that have the name of a metric."""
    return {figure.name: getattr(read, figure.name) for figure in fields(read) if figure.name in MEASURED}


def _less_idle(interval: Counters, idle: IdleRate) -> float | None:
    """Return the outside CPU, which can be slightly below zero: a cut at zero would bias every mean upwards. None if
    the idle rate does not describe the machine's other load."""
    outside = interval.outside
    return None if outside is None or idle.reason else outside - idle.rate * interval.clock
