"""One phase measured: counters, the probe's run, counters, a sync of the backing filesystem, counters."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import IO, Any

from kit.engines.place import Place
from kit.host.counters import Counters, read_counters
from kit.host.rest import IdleRate
from kit.model.metric import MEASURED
from kit.model.sample import Phase
from kit.probe.client import Timing
from kit.session.tracing import Tracing


def measure_phase(
    name: str,
    place: Place,
    argv: Sequence[str],
    cwd: str,
    output: IO[bytes],
    idle: IdleRate,
    tracing: Tracing | None = None,
) -> Phase:
    """Run one phase in a place. Tracers are attached before the counters are first read. Raises RunError
    if the command can't be started or the arm dies."""
    with tracing.around(name, place) if tracing else nullcontext(()) as recordings:
        before = counters_of(place)
        timing = place.run(argv, cwd, output)
        after = counters_of(place)
    phase = flushed(name, place, Work(timing, after.since(before)), idle, after)
    for recording in recordings:
        phase = recording.add_to(phase)
    return phase


def counters_of(place: Place) -> Counters:
    """All that is counted of a place, now."""
    return read_counters(place.cgroup, place.backing.device, place.load, place.session)


@dataclass(frozen=True)
class Work:
    """What a phase took, all but its flush. ``turns``: see Figures; None where it ran from start to end."""

    timing: Timing
    spent: Counters
    turns: int | None = None
    frozen_write_bytes: float | None = None
    others_write_bytes: float | None = None


def flushed(name: str, place: Place, work: Work, idle: IdleRate, before: Counters | None = None) -> Phase:
    """The phase, now that it has ended and what it has left to be written is written. ``before``: the counters now."""
    start = before or counters_of(place)
    place.sync()
    flush = counters_of(place).since(start)
    timing = work.timing
    return Phase(
        name=name,
        status="ok" if timing.ok else "failed",
        **_metrics(timing),
        **_metrics(work.spent),
        elsewhere=_less_idle(work.spent, idle),
        flush=flush.clock,
        flush_bytes=flush.write_bytes,
        flush_cpu=_less_idle(flush, idle),
        exit_code=timing.exit_code,
        signal=timing.signal,
        turns=work.turns,
        frozen_write_bytes=work.frozen_write_bytes,
        others_write_bytes=work.others_write_bytes,
    )


def _metrics(read: Timing | Counters) -> dict[str, Any]:
    """What of it bears the name of a metric."""
    return {item.name: getattr(read, item.name) for item in fields(read) if item.name in MEASURED}


def _less_idle(interval: Counters, idle: IdleRate) -> float | None:
    """Can come out a little below zero: cutting that off would make every mean too large. None where the idle rate is
    no measure of what else the machine does."""
    elsewhere = interval.elsewhere
    return None if elsewhere is None or idle.reason else elsewhere - idle.rate * interval.clock
