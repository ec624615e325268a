"""The machine at rest: what it spends by itself while no workload runs, watched before every block; and who spends it.

CPU elsewhere is what the machine spent outside an arm less this. Each block has a window of its own, so that what one
window errs by differs from block to block, and is in the interval of every figure that it goes into.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from kit.host.cgroup import machine_cpu
from kit.host.interrupt import interruptible
from kit.model.fact import BUSY_BEFORE, IDLE, NO_ELSEWHERE, Fact

#: CPU seconds per second. Above the first a machine is busy, and a workload would take from its other programs what
#: they seem to take from it; a standard error above the second leaves nothing to be told; windows that agree within the
#: third are at rest.
HIGH, UNSTABLE, STEADY = 0.1, 0.05, 0.01
#: Seconds of a window, and parts of it that are compared with each other.
WINDOW, LEAST_WINDOW, PARTS = 1.0, 0.2, 5
#: Windows that are watched for rest: before the first block, and before another.
PATIENCE, AGAIN = 8, 4
#: What calms down has, two windows later, at most so much of what it had: the kit's own daemons do within seconds, what
#: others run does not.
CALMING = 0.9
#: A window before a block takes at most this share of what the last block took.
_SHARE = 0.01
_USER_HZ = os.sysconf("SC_CLK_TCK")
_NAMED = 3


@dataclass(frozen=True)
class IdleRate:
    """CPU seconds that the machine, daemons up and no workload, spends in a second, with the standard error."""

    rate: float
    error: float = 0.0

    @classmethod
    def of(cls, shares: Sequence[float]) -> IdleRate:
        """From equally long parts of a window."""
        return cls(fmean(shares), stdev(shares) / len(shares) ** 0.5)

    @property
    def reason(self) -> str:
        """Why CPU elsewhere can't be told by it, or ''."""
        if self.rate > HIGH:
            return f"this machine is busy by itself, {self.rate:.2f} CPU s per s"
        if self.error > UNSTABLE:
            return f"what this machine does by itself is not steady, {self.rate:.2f} ± {self.error:.2f} CPU s per s"
        return ""


class IdleWatch:
    """Watches the machine in the pauses of a session; ``rates`` holds what it was before each block, ``busy`` the rate
    before each round of measured runs that began on a busy machine, by its number."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.rates: list[IdleRate] = []
        self.busy: dict[int, float] = {}
        self._tell = tell
        self._exact = machine_cpu()[1] != "/proc/stat"

    def first(self) -> IdleRate:
        """Until two windows of a second agree: daemons that have just started, and data still being written back, would
        otherwise pass for the state of rest. A machine that stays busy is not waited for; which programs keep
        it busy is told."""
        before = processes()
        rates, current = [_window(WINDOW).rate], _window(WINDOW)
        for _ in range(PATIENCE - 2):
            if abs(current.rate - rates[-1]) < STEADY or _stays_busy(*rates[-2:], current.rate):
                break
            before = processes()
            rates.append(current.rate)
            current = _window(WINDOW)
        if current.reason:
            named = busiest(before, processes(), kit_pids())
            self._tell(f"{current.reason}{f' ({named})' if named else ''}: CPU elsewhere is left out while it is")
        self.rates.append(current)
        return current

    def again(self, block_seconds: float) -> IdleRate:
        """Before a block: one window, short where the last block was short. A machine that was at rest may have to
        finish what the last run left behind."""
        length = min(WINDOW, max(LEAST_WINDOW, _SHARE * block_seconds)) if self._exact else WINDOW
        found = _window(length)
        if not self.rates[-1].reason:
            for _ in range(AGAIN - 1):
                if not found.reason:
                    break
                found = _window(WINDOW)
            if found.reason:
                self._tell(f"{found.reason}: CPU elsewhere is left out while it is")
        self.rates.append(found)
        return found

    def note_round(self, number: int) -> None:
        """Note that the round with this number begins now; 0 is a warm-up."""
        if number and self.rates[-1].rate > HIGH:
            self.busy[number] = self.rates[-1].rate

    def facts(self) -> list[Fact]:
        """For the record: the rate before the blocks, how much it differed, and why figures are lacking."""
        values = [item.rate for item in self.rates]
        spread = (
            f" (from {min(values):.4f} to {max(values):.4f} before {len(values)} blocks)" if len(values) > 1 else ""
        )
        found = [IDLE.fact(f"{fmean(values):.4f} s per s{spread}")]
        without = [item.reason for item in self.rates if item.reason]
        if without:
            found.append(NO_ELSEWHERE.fact(f"before {len(without)} of {len(values)} blocks {without[0]}"))
        cpus = os.cpu_count()
        found += [BUSY_BEFORE.fact(f"{rate:.2f} of {cpus} CPUs", str(number)) for number, rate in self.busy.items()]
        return found


def _stays_busy(*rates: float) -> bool:
    """Of windows in a row, at least three."""
    return len(rates) > 2 and min(rates) > HIGH and rates[-1] > CALMING * rates[0]


def _window(length: float) -> IdleRate:
    return IdleRate.of([_busy_share(length / PARTS) for _ in range(PARTS)])


def _busy_share(length: float) -> float:
    busy, own, clock = machine_cpu()[0], time.process_time(), time.monotonic()
    with interruptible():
        time.sleep(length)
    return (machine_cpu()[0] - busy - (time.process_time() - own)) / (time.monotonic() - clock)


@dataclass(frozen=True)
class Process:
    name: str
    parent: int
    cpu: float  # seconds since it was started
    at: float  # when that was read


def processes() -> dict[int, Process]:
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            pid, _, rest = path.read_text(errors="replace").partition(" (")
            name, _, rest = rest.rpartition(") ")
            words = rest.split()
            cpu = (int(words[11]) + int(words[12])) / _USER_HZ
            found[int(pid)] = Process(name, int(words[1]), cpu, time.monotonic())
    return found


def kit_pids() -> frozenset[int]:
    """The kit and all that it has started."""
    parents = {pid: process.parent for pid, process in processes().items()}
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return frozenset(mine)


def busiest(before: Mapping[int, Process], after: Mapping[int, Process], mine: frozenset[int]) -> str:
    """``cc1 (4242) 93%, …``: shares of one CPU of those that used most between two looks, the kit's own left out."""
    shares = []
    for pid in (before.keys() & after.keys()) - mine:
        then, now = before[pid], after[pid]
        if now.at > then.at:
            shares.append(((now.cpu - then.cpu) / (now.at - then.at), pid, now.name))
    top = sorted(shares, reverse=True)[:_NAMED]
    return ", ".join(f"{name} ({pid}) {share:.0%}" for share, pid, name in top if share >= 0.01)
