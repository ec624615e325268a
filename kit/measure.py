"""One phase measured: counters, the probe's run, counters, a sync of the backing filesystem, counters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from kit.cgroup import machine_cpu
from kit.counters import Counters, read_counters
from kit.engines.place import Place
from kit.probe.client import Timing
from kit.sample import Phase


@dataclass(frozen=True)
class IdleRate:
    """CPU seconds that the idle machine, daemons up and no workload, spends in a second."""

    rate: float


_WINDOW = 1.0
_STEADY = 0.01
_PATIENCE = 15


def idle_rate(observe: Callable[[str], None] = lambda text: None) -> IdleRate:
    """Watch the machine do nothing until two windows of a second agree within 0.01 s per s, at most 15 windows.

    Daemons that have just started and data still being written back would otherwise pass for the idle state.
    """
    previous = _busy_share()
    for _ in range(_PATIENCE):
        current = _busy_share()
        if abs(current - previous) < _STEADY:
            return IdleRate((current + previous) / 2)
        previous = current
    observe(f"this machine does not come to rest ({previous:.2f} CPU s per s): `elsewhere` will be less exact")
    return IdleRate(previous)


def _busy_share() -> float:
    busy, own, clock = machine_cpu()[0], time.process_time(), time.monotonic()
    time.sleep(_WINDOW)
    return (machine_cpu()[0] - busy - (time.process_time() - own)) / (time.monotonic() - clock)


def measure_phase(name: str, place: Place, argv: Sequence[str], cwd: str, output: IO[bytes], idle: IdleRate) -> Phase:
    """Run one phase in a place. Raises RunError if the command can't be started or the arm dies."""
    before = read_counters(place.cgroup, place.backing.device, place.load)
    timing = place.run(argv, cwd, output)
    after = read_counters(place.cgroup, place.backing.device, place.load)
    place.sync()
    flushed = read_counters(place.cgroup, place.backing.device, place.load)
    return _phase(name, timing, after.since(before), flushed.since(after), idle)


def _phase(name: str, timing: Timing, work: Counters, flush: Counters, idle: IdleRate) -> Phase:
    return Phase(
        name=name,
        status="ok" if timing.ok else "failed",
        real=timing.real,
        user=timing.user,
        sys=timing.sys,
        cgroup_user=work.group_user,
        cgroup_sys=work.group_sys,
        elsewhere=_less_idle(work, idle),
        flush=flush.clock,
        flush_bytes=flush.write_bytes,
        flush_cpu=_less_idle(flush, idle),
        read_bytes=work.read_bytes,
        write_bytes=work.write_bytes,
        read_ops=work.read_ops,
        write_ops=work.write_ops,
        minor_faults=timing.minor_faults,
        major_faults=timing.major_faults,
        voluntary_switches=timing.voluntary_switches,
        involuntary_switches=timing.involuntary_switches,
        max_rss=timing.max_rss,
        psi_cpu=work.psi_cpu,
        psi_io=work.psi_io,
        psi_memory=work.psi_memory,
        steal=work.steal,
        exit_code=timing.exit_code,
        signal=timing.signal,
    )


def _less_idle(interval: Counters, idle: IdleRate) -> float | None:
    """Can come out a little below zero: cutting that off would make every mean too large."""
    elsewhere = interval.elsewhere
    return None if elsewhere is None else elsewhere - idle.rate * interval.clock
