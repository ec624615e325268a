"""The tracer of CPU: perf samples the stacks of the whole machine, so work on an arm's behalf has names too.

perf is a child that dies with the kit; its events depend on its open files alone. It is attached before the phase, and
reports that. Samples are identified by their time on the monotonic clock."""

from __future__ import annotations

import io
import os
import select
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kit.core.errors import KitError, RunError
from kit.extra.tracing.cpu_attribution import Parts
from kit.extra.tracing.perf_script import OPTIONS, Fork, Lost, StackSample, read_script
from kit.host.cgroup.cgroup import machine_cpu
from kit.host.command import CommandError, Process, died, install_fix, reading, run, spawn, stop
from kit.host.interrupt import interruptible
from kit.host.packages import PACKAGES
from kit.model.profile import CpuProfile, Stack, make_profile
from kit.model.sample import Phase
from kit.session.measure.tracer import Level, Traced, existing

#: Stacks per second of each CPU: not a divisor of any timer's rate, to avoid running in step with one.
HERTZ, LEAST_HERTZ = 499, 19
#: A longer phase has a lower rate: this total is enough for functions with a thousandth of its CPU.
_MOST_SAMPLES = 200_000
#: The CPU clock, which does not tick while a CPU is idle, in nanoseconds.
_CLOCK, _SECONDS_PER_NS = "cpu-clock", 1e-9
_CYCLES = "cycles"
#: Seconds until perf is attached, and until it has written its data, on a machine as slow as an emulated guest.
_PATIENCE = 120.0
_KALLSYMS = Path("/proc/kallsyms")


def sampling_rate(cpu_seconds: float) -> int:
    """Return the stacks per second of each CPU for a phase that takes this much CPU."""
    return max(LEAST_HERTZ, min(HERTZ, int(_MOST_SAMPLES / max(cpu_seconds, 1e-9))))


@dataclass
class RecordedProfile:
    """The samples of one phase."""

    profile: CpuProfile | None = None

    def add_to(self, phase: Phase) -> Phase:
        return replace(phase, profiles=(*phase.profiles, self.profile)) if self.profile else phase


@dataclass(frozen=True)
class PerfTracer:
    """``event``: the sampled event. ``hertz``: samples per second of each CPU."""

    event: str
    hertz: int = HERTZ

    @contextmanager
    def around(self, subject: Traced) -> Iterator[RecordedProfile]:
        recording = RecordedProfile()
        data = subject.scratch / "perf.data"
        try:
            with self._attached(data, subject) as process:
                parts = _parts(subject)
                busy, began = machine_cpu()[0], time.monotonic()
                yield recording
                ended, busy = time.monotonic(), machine_cpu()[0] - busy
                if process.poll() is not None:
                    raise RunError(f"perf ended under the run: {died(process)}", "run kit doctor")
            with reading(["perf", "script", "-i", data, *OPTIONS], what="perf script") as output:
                lines = io.TextIOWrapper(output, errors="replace")
                recording.profile = fold_script(lines, parts, (began, ended), busy)
        finally:
            data.unlink(missing_ok=True)

    @contextmanager
    def _attached(self, data: Path, subject: Traced) -> Iterator[Process]:
        errors = subject.scratch / "perf.err"
        (here, commands), (answers, there) = os.pipe(), os.pipe()
        try:
            with errors.open("wb") as output:
                words = [*_record(self.event, self.hertz, data), "-D", "-1", f"--control=fd:{here},{there}"]
                process = spawn(words, output=output, cgroup_procs=existing(subject.session), pass_fds=(here, there))
            try:
                os.write(commands, b"enable\n")
                _wait(process, answers, errors)
                yield process
            finally:
                stop(process, _PATIENCE)
        finally:
            for descriptor in (here, commands, answers, there):
                os.close(descriptor)


def _record(event: str, hertz: int, data: Path) -> list[str]:
    """Use the kernel's build ids of the mapped files: a program in an image must not get names from the host's file at
    that path."""
    words = ["perf", "record", "-q", "-a", "-g", "-e", event, "-F", str(hertz), "-k", "CLOCK_MONOTONIC"]
    return [*words, "--buildid-mmap", "-m", "2M", "-o", str(data)]


def _wait(process: Process, answers: int, said: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        with interruptible():
            ready, _, _ = select.select([answers], [], [], 0.1)
        if ready and os.read(answers, 64):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            why = _first_line(said.read_text(errors="replace")) or died(process) or f"no answer in {_PATIENCE:.0f} s"
            raise RunError(f"perf: {why}", "see with kit doctor what can be traced here")


def _first_line(said: str) -> str:
    """Return perf's first message: it reports the error first, then a long explanation."""
    lines = (line.strip() for line in said.splitlines())
    return next((line for line in lines if line and line != "Error:"), "")


def _parts(subject: Traced) -> Parts:
    workload = subject.group.pids() if subject.group else set()
    return Parts(workload, subject.session.pids() - workload, os.getpid())


def fold_script(lines: Iterable[str], parts: Parts, when: tuple[float, float], busy: float) -> CpuProfile:
    """Parse perf script's output as stacks with seconds. ``when``: the phase's beginning and end. ``busy``: seconds of
    CPU of the whole machine between them, which the cycles of all samples represent."""
    weights: dict[Stack, int] = defaultdict(int)
    samples, lost, event = 0, 0, _CLOCK
    for event_record in read_script(lines):
        if isinstance(event_record, Fork):
            parts.forked(event_record.pid, event_record.parent, before=event_record.time == 0)
        elif isinstance(event_record, Lost):
            lost += event_record.count
        elif event_record.pid and when[0] <= event_record.time <= when[1]:
            samples, event = samples + 1, event_record.event
            weights[_stack(event_record, parts)] += event_record.weight
    scale = _SECONDS_PER_NS if event == _CLOCK else busy / (sum(weights.values()) or 1)
    return make_profile(event, {stack: weight * scale for stack, weight in weights.items()}, samples, lost)


def _stack(item: StackSample, parts: Parts) -> Stack:
    return (*parts.of(item.pid, item.process, item.functions), *item.functions)


def find_perf_tracer(scratch: Path, cpu_seconds: float = 0.0) -> tuple[PerfTracer | None, Level]:
    """Return the tracer, or the reason why it does not work. The test samples the
    machine for a moment."""
    try:
        event = _CYCLES if _counts_cycles() else f"{_CLOCK}:I"
        data = scratch / "perf.data"
        with suppress(FileNotFoundError):
            data.unlink()
        run([*_record(event, HERTZ, data), "--", "true"], what="perf record")
        data.unlink(missing_ok=True)
        if not _has_addresses():
            return None, _no("functions of the kernel have no names here", "run sysctl kernel.kptr_restrict=0")
    except CommandError as error:
        return None, _no(f"perf: {_first_line(error.said)}", _mend(error))
    except KitError as error:
        return None, _no(error.message, error.hint)
    what = "hardware cycles" if event == _CYCLES else "the CPU clock, without a counter of cycles"
    hertz = sampling_rate(cpu_seconds)
    return PerfTracer(event, hertz), Level("cycles", True, f"perf, {hertz} times a second of {what}")


def _counts_cycles() -> bool:
    """Return whether the machine has a counter of cycles. The other event is one that each machine has: without any,
    perf fails (7.2)."""
    events = f"{_CYCLES},task-clock"
    counted = run(["perf", "stat", "--log-fd", "1", "-a", "-x", ",", "-e", events, "true"], what="perf stat")
    rows = (line.split(",") for line in counted.splitlines())
    return any(row[0].isdecimal() and _CYCLES in row for row in rows)


def _no(reason: str, fix: str) -> Level:
    return Level("cycles", False, reason, fix)


def _mend(error: CommandError) -> str:
    if any(word in error.said for word in ("ermission", "paranoid", "not permitted")):
        return "run as root, or sysctl kernel.perf_event_paranoid=-1"
    return f"use a perf and a kernel from 5.12 on: {install_fix(PACKAGES['perf'], 'perf')}"


def _has_addresses() -> bool:
    """Return whether this user may see addresses: for others the kernel shows 0 for all."""
    with suppress(OSError), _KALLSYMS.open() as symbols:
        return any(int(line.split(" ", 1)[0], 16) for line in (next(symbols, "0 "), next(symbols, "0 ")))
    return False
