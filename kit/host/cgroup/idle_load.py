"""The idle load: the CPU that the machine spends by itself while no workload runs, and the programs that spend it.

The idle load is measured before every round. Outside CPU is the CPU spent outside an arm minus the idle load. Each
round has a window of its own, so a window's error differs from round to round and is part of every interval."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from kit.host.cgroup.cgroup import machine_cpu
from kit.host.interrupt import interruptible
from kit.model.fact import BUSY_BEFORE, IDLE, NO_OUTSIDE_CPU, Fact

#: CPU seconds per second. Above the first value a machine is busy: a workload would take CPU from its other programs. A
#: standard error above the second leaves nothing significant. Windows that agree within the third are at rest.
HIGH, UNSTABLE, STEADY = 0.1, 0.05, 0.01
#: Seconds of a window, and the number of its parts that are compared.
WINDOW, LEAST_WINDOW, PARTS = 1.0, 0.2, 5
#: Windows that are watched for rest: before the first round, and before another.
PATIENCE, AGAIN = 8, 4
#: A load that calms down has, two windows later, at most this share of its former rate. The kit's own daemons calm down
#: within seconds; other programs do not.
CALMING = 0.9
#: A window before a round takes at most this share of the last round's duration.
_SHARE = 0.01
_USER_HZ = os.sysconf("SC_CLK_TCK")
_NAMED = 3


@dataclass(frozen=True)
class IdleRate:
    """CPU seconds per second that the machine spends with its daemons up and no workload, with the standard error."""

    rate: float
    error: float = 0.0

    @classmethod
    def of(cls, shares: Sequence[float]) -> IdleRate:
        """Return the rate from the CPU seconds of equally long parts of a window."""
        return cls(fmean(shares), stdev(shares) / len(shares) ** 0.5)

    @property
    def reason(self) -> str:
        """Return why the rate cannot give the outside CPU, or ''."""
        cpus = os.cpu_count()
        if self.rate > HIGH:
            return f"other programs use {self.rate:.2f} of {cpus} CPUs"
        if self.error > UNSTABLE:
            return f"the CPU use of other programs is not steady, {self.rate:.2f} ± {self.error:.2f} of {cpus} CPUs"
        return ""


#: Of runs without outside CPU: a pilot run, and traced ones, since tracers use CPU too.
NOT_WATCHED = IdleRate(0.0, math.inf)


class IdleWatch:
    """Watches the machine in the pauses of a session. ``rates`` contains the rate before each round. ``busy`` contains,
    by round number, the rate before each measured round that began on a busy machine."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.rates: list[IdleRate] = []
        self.busy: dict[int, float] = {}
        self._tell = tell
        self._exact = machine_cpu()[1] != "/proc/stat"

    def first(self) -> IdleRate:
        """Wait until two windows of a second agree. Otherwise newly started daemons, and data still being written back,
        would count as idle load. A machine that stays busy is not waited for; the programs that keep it busy are
        reported."""
        before = processes()
        rates, current = [_window(WINDOW).rate], _window(WINDOW)
        for _ in range(PATIENCE - 2):
            if abs(current.rate - rates[-1]) < STEADY or _stays_busy(*rates[-2:], current.rate):
                break
            before = processes()
            rates.append(current.rate)
            current = _window(WINDOW)
        if current.reason:
            programs = busiest(before, processes(), kit_pids())
            self._tell(f"{current.reason}{f' ({programs})' if programs else ''}: outside CPU is left out meanwhile")
        self.rates.append(current)
        return current

    def again(self, round_seconds: float) -> IdleRate:
        """Measure one window before a round, short if the last round was short. An idle machine may still have to
        finish what the last run left behind."""
        length = min(WINDOW, max(LEAST_WINDOW, _SHARE * round_seconds)) if self._exact else WINDOW
        current = _window(length)
        if not self.rates[-1].reason:
            for _ in range(AGAIN - 1):
                if not current.reason:
                    break
                current = _window(WINDOW)
            if current.reason:
                self._tell(f"{current.reason}: outside CPU is left out meanwhile")
        self.rates.append(current)
        return current

    def note_round(self, number: int) -> None:
        """Record that the round with this number begins now; 0 is a warm-up."""
        if number and self.rates[-1].rate > HIGH:
            self.busy[number] = self.rates[-1].rate

    def facts(self) -> list[Fact]:
        """Return for the record: the rate before the rounds, its spread, and why figures are missing."""
        values = [rate.rate for rate in self.rates]
        spread = (
            f" (from {min(values):.4f} to {max(values):.4f} before {len(values)} rounds)" if len(values) > 1 else ""
        )
        facts = [IDLE.fact(f"{fmean(values):.4f} s per s{spread}")]
        without = [rate.reason for rate in self.rates if rate.reason]
        if without:
            facts.append(NO_OUTSIDE_CPU.fact(without[0]))  # the samples say in which rounds
        cpus = os.cpu_count()
        facts += [BUSY_BEFORE.fact(f"{rate:.2f} of {cpus} CPUs", str(number)) for number, rate in self.busy.items()]
        return facts


def _stays_busy(*rates: float) -> bool:
    """Return whether the machine stays busy: its rates, at least three, neither become low nor calm down."""
    return len(rates) > 2 and min(rates) > HIGH and rates[-1] > CALMING * rates[0]


def _window(length: float) -> IdleRate:
    return IdleRate.of([_busy_share(length / PARTS) for _ in range(PARTS)])


def _busy_share(length: float) -> float:
    busy, kit_cpu, clock = machine_cpu()[0], time.process_time(), time.monotonic()
    with interruptible():
        time.sleep(length)
    return (machine_cpu()[0] - busy - (time.process_time() - kit_cpu)) / (time.monotonic() - clock)


@dataclass(frozen=True)
class Process:
    name: str
    parent: int
    cpu: float  # seconds since it was started
    at: float  # when that was read


def processes() -> dict[int, Process]:
    by_pid = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            pid, _, text = path.read_text(errors="replace").partition(" (")
            name, _, text = text.rpartition(") ")
            words = text.split()
            cpu = (int(words[11]) + int(words[12])) / _USER_HZ
            by_pid[int(pid)] = Process(name, int(words[1]), cpu, time.monotonic())
    return by_pid


def kit_pids() -> frozenset[int]:
    """Return the PIDs of the kit and of everything that it has started."""
    parents = {pid: process.parent for pid, process in processes().items()}
    pids = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in pids} - pids:
        pids |= more
    return frozenset(pids)


def busiest(before: Mapping[int, Process], after: Mapping[int, Process], excluded: frozenset[int]) -> str:
    """Return ``cc1 (4242) 93%, …``: shares of one CPU of the largest users between two samples, without the kit's
    own."""
    shares = []
    for pid in (before.keys() & after.keys()) - excluded:
        then, now = before[pid], after[pid]
        if now.at > then.at:
            shares.append(((now.cpu - then.cpu) / (now.at - then.at), pid, now.name))
    top = sorted(shares, reverse=True)[:_NAMED]
    return ", ".join(f"{name} ({pid}) {100 * share:.0f} %" for share, pid, name in top if share >= 0.01)
