"""One phase measured: counters, the probe's run, counters, a sync of the backing filesystem, counters."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields
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
        before = read_counters(place.cgroup, place.backing.device, place.load, place.session)
        timing = place.run(argv, cwd, output)
        after = read_counters(place.cgroup, place.backing.device, place.load, place.session)
    place.sync()
    flushed = read_counters(place.cgroup, place.backing.device, place.load, place.session)
    phase = _phase(name, timing, after.since(before), flushed.since(after), idle)
    for recording in recordings:
        phase = recording.add_to(phase)
    return phase


def _phase(name: str, timing: Timing, work: Counters, flush: Counters, idle: IdleRate) -> Phase:
    return Phase(
        name=name,
        status="ok" if timing.ok else "failed",
        **_metrics(timing),
        **_metrics(work),
        elsewhere=_less_idle(work, idle),
        flush=flush.clock,
        flush_bytes=flush.write_bytes,
        flush_cpu=_less_idle(flush, idle),
        exit_code=timing.exit_code,
        signal=timing.signal,
    )


def _metrics(read: Timing | Counters) -> dict[str, Any]:
    """What of it bears the name of a metric."""
    return {item.name: getattr(read, item.name) for item in fields(read) if item.name in MEASURED}


def _less_idle(interval: Counters, idle: IdleRate) -> float | None:
    """Can come out a little below zero: cutting that off would make every mean too large. None where the idle rate is
    no measure of what else the machine does."""
    elsewhere = interval.elsewhere
    return None if elsewhere is None or idle.reason else elsewhere - idle.rate * interval.clock
