"""One phase measured: counters, the probe's run, counters, a sync of the backing filesystem, counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from kit.engines.place import Place
from kit.host.counters import Counters, read_counters
from kit.host.rest import IdleRate
from kit.model.sample import Phase
from kit.probe.client import Timing


def measure_phase(name: str, place: Place, argv: Sequence[str], cwd: str, output: IO[bytes], idle: IdleRate) -> Phase:
    """Run one phase in a place. Raises RunError if the command can't be started or the arm dies."""
    before = read_counters(place.cgroup, place.backing.device, place.load, place.session)
    timing = place.run(argv, cwd, output)
    after = read_counters(place.cgroup, place.backing.device, place.load, place.session)
    place.sync()
    flushed = read_counters(place.cgroup, place.backing.device, place.load, place.session)
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
        psi_cpu_own=work.psi_cpu_own,
        psi_io_own=work.psi_io_own,
        psi_memory_own=work.psi_memory_own,
        steal=work.steal,
        exit_code=timing.exit_code,
        signal=timing.signal,
    )


def _less_idle(interval: Counters, idle: IdleRate) -> float | None:
    """Can come out a little below zero: cutting that off would make every mean too large. None where the idle rate is
    no measure of what else the machine does."""
    elsewhere = interval.elsewhere
    return None if elsewhere is None or idle.reason else elsewhere - idle.rate * interval.clock
