"""Counters of the machine at one moment. The difference between two readings is the cost of the interval.

The energy of the processors is that of Linux's counters (Documentation/power/powercap/powercap.rst)."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from kit.core.errors import said_by_system
from kit.host.cgroup.cgroup import Cgroup, machine_cpu, read_pressure

DOMAINS = Path("/sys/class/powercap")
#: A whole processor. The domains of its cores are in it; that of the platform (psys) includes it.
_PACKAGE = re.compile(r"package-\d+(-die-\d+)?")


class EnergyMeter:
    """The counters of all processors, below a directory in powercap's layout.

    A counter begins again at zero after some minutes of full power. The meter counts on if it is read in between:
    65 kJ, the least known range, are two minutes of 500 W."""

    def __init__(self, domains: Path = DOMAINS) -> None:
        self._lock = threading.Lock()
        self._counters = [_Counter(path) for path in _packages(domains)]
        self.source = ", ".join(counter.name for counter in self._counters)
        #: Why nothing can be read, or ''.
        self.reason = ""
        self.joules()

    def joules(self) -> float | None:
        """Return the energy used since the meter was made. None if a processor's can't be read."""
        with self._lock:
            try:
                return sum([counter.advance() for counter in self._counters]) / 1e6 if self._counters else None
            except OSError as error:
                self.reason = said_by_system(error)
                return None


@dataclass
class _Counter:
    """One counter; ``used``: µJ since its first reading."""

    domain: Path
    used: int = 0
    _last: int | None = field(default=None, repr=False)
    _largest: int = field(default=0, repr=False)

    @property
    def name(self) -> str:
        return _name(self.domain)

    def advance(self) -> int:
        now = int((self.domain / "energy_uj").read_text())
        if not self._largest:  # it does not change, and each slice reads the counter
            self._largest = int((self.domain / "max_energy_range_uj").read_text())
        self.used += (now - (now if self._last is None else self._last)) % (self._largest + 1)
        self._last = now
        return self.used


def _packages(domains: Path) -> Iterator[Path]:
    """Return the directory of each package once: a second one (intel-rapl-mmio) has the same counters."""
    names: set[str] = set()
    for path in sorted(domains.glob("*:*"), key=lambda path: (len(path.name.split(":")[0]), path.name)):
        name = _name(path)
        if _PACKAGE.fullmatch(name) and name not in names:
            names.add(name)
            yield path


def _name(domain: Path) -> str:
    file = domain / "name"
    return file.read_text().strip() if file.exists() else ""


@lru_cache
def machine_energy() -> EnergyMeter:
    """Return this machine's meter."""
    return EnergyMeter()


_USER_HZ, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
_SECTOR = 512  # unit of /sys/block/*/stat, whatever the device's own (Documentation/block/stat.rst)


@dataclass(frozen=True)
class Counters:
    """Seconds, bytes, joules and counts since a fixed past moment. None: this machine does not count it. A field with
    the name of a metric is that metric."""

    clock: float
    machine_cpu: float
    own_cpu: float
    cgroup_user: float | None
    cgroup_sys: float | None
    beside_cpu: float  # of what runs beside the arm
    steal: float
    psi_cpu: float | None
    psi_io: float | None
    psi_memory: float | None
    psi_cpu_own: float | None
    psi_io_own: float | None
    psi_memory_own: float | None
    read_bytes: float | None
    write_bytes: float | None
    read_ops: float | None
    write_ops: float | None
    space: float | None = None
    inodes: float | None = None
    swapped: float | None = None
    throttled: float | None = None
    energy: float | None = None

    def since(self, earlier: Counters) -> Counters:
        """Return the increase since an earlier reading, field by field."""
        values: dict[str, Any] = {}
        for name in self.__dataclass_fields__:
            now, then = getattr(self, name), getattr(earlier, name)
            values[name] = None if now is None or then is None else now - then
        return Counters(**values)

    def __add__(self, other: Counters) -> Counters:
        """Return the sum of two increases, field by field."""
        values: dict[str, Any] = {}
        for name in self.__dataclass_fields__:
            first, second = getattr(self, name), getattr(other, name)
            values[name] = None if first is None or second is None else first + second
        return Counters(**values)

    @property
    def outside(self) -> float | None:
        """Return the CPU spent outside the group, what runs beside it, and the kit itself. It still includes the idle
        machine's own share."""
        if self.cgroup_user is None or self.cgroup_sys is None:
            return None
        return self.machine_cpu - self.cgroup_user - self.cgroup_sys - self.beside_cpu - self.own_cpu


def read_counters(
    cgroup: Cgroup | None,
    device: str | None,
    beside: Sequence[Cgroup] = (),
    session: Cgroup | None = None,
    backing: Path | None = None,
) -> Counters:
    """Read everything now. ``device``: MAJOR:MINOR of the backing device, or None. ``beside``: groups of a background
    load and a registry. ``session``: the group of all that the session has started. ``backing``: the backing
    filesystem's directory."""
    group = cgroup.cpu() if cgroup else None
    spent = [cpu for load in beside if (cpu := load.cpu())]
    io = _device(device)
    used = _used(backing)
    return Counters(
        clock=time.monotonic(),
        machine_cpu=machine_cpu()[0],
        own_cpu=time.process_time(),
        cgroup_user=group.user if group else None,
        cgroup_sys=group.sys if group else None,
        beside_cpu=sum(cpu.user + cpu.sys for cpu in spent),
        steal=_steal(),
        psi_cpu=pressure("cpu"),
        psi_io=pressure("io"),
        psi_memory=pressure("memory"),
        psi_cpu_own=_own_pressure("cpu", cgroup, session),
        psi_io_own=_own_pressure("io", cgroup, session),
        psi_memory_own=_own_pressure("memory", cgroup, session),
        read_ops=io[0],
        read_bytes=io[1],
        write_ops=io[2],
        write_bytes=io[3],
        space=used[0],
        inodes=used[1],
        swapped=_swapped(),
        throttled=_throttled(),
        energy=machine_energy().joules(),
    )


def pressure(resource: str) -> float | None:
    """Return the seconds in which some task of the machine waited for the resource
    (Documentation/accounting/psi.rst)."""
    return read_pressure(Path(f"/proc/pressure/{resource}"))


def _own_pressure(resource: str, *groups: Cgroup | None) -> float | None:
    """Return the figure of the arm's group or the session's. One of them contains the other or is empty."""
    pressures = [group.pressure(resource) for group in groups if group]
    return max((value for value in pressures if value is not None), default=None)


def _steal() -> float:
    values = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return int(values[7]) / _USER_HZ


def _swapped() -> float:
    """Return the bytes that the machine has read from swap space and written to it (proc_vmstat(5))."""
    pages = (line.split() for line in Path("/proc/vmstat").read_text().splitlines() if line.startswith("pswp"))
    return sum(int(count) for _, count in pages) * _PAGE


@lru_cache
def _throttle_counts() -> tuple[Path, ...]:
    return tuple(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))


def _throttled() -> float | None:
    """Return how often the cores were throttled for their temperature (Documentation/ABI/testing/
    sysfs-devices-system-cpu). None where the CPU, or a virtual machine, does not say."""
    return sum(int(path.read_text()) for path in _throttle_counts()) if _throttle_counts() else None


def _device(number: str | None) -> tuple[float | None, float | None, float | None, float | None]:
    path = Path(f"/sys/dev/block/{number}/stat")
    if number is None or not path.exists():
        return None, None, None, None
    stat = [int(word) for word in path.read_text().split()]
    return stat[0], stat[2] * _SECTOR, stat[4], stat[6] * _SECTOR


def _used(directory: Path | None) -> tuple[float | None, float | None]:
    """Return the bytes and inodes in use on a filesystem (statvfs(3)). btrfs counts no inodes."""
    if directory is None:
        return None, None
    info = os.statvfs(directory)
    inodes = info.f_files - info.f_ffree if info.f_files else None
    return (info.f_blocks - info.f_bfree) * info.f_frsize, inodes


def device_writes(devices: Iterable[str]) -> float:
    """Return the total bytes written to these devices, given as MAJOR:MINOR."""
    return sum(written for device in devices if (written := _device(device)[3]) is not None)
