"""Control groups of a session, on cgroup v2 and on the v1/v2 hybrid: they account an arm's CPU and kill its
processes."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import MachineError, RunError
from kit.host.container import CGROUPS, RIGHTS, granting
from kit.host.mounts import read_mounts

_USER_HZ = os.sysconf("SC_CLK_TCK")
UNIFIED = "unified"
#: Types of mounts, of the two versions.
_TYPES = ("cgroup", "cgroup2")


@dataclass(frozen=True)
class CpuTimes:
    """Seconds of CPU since the cgroup was made."""

    user: float
    sys: float


def hierarchies() -> dict[str, Path]:
    """Return the mounted cgroup hierarchies: ``unified`` and, on v1, each controller by name."""
    roots: dict[str, Path] = {}
    for mount in read_mounts():
        if mount.type == "cgroup2" and mount.root == "/":
            roots[UNIFIED] = mount.path
        elif mount.type == "cgroup" and mount.root == "/":
            names = [option.removeprefix("name=") for option in mount.shared.split(",") if option not in ("rw", "ro")]
            roots.update(dict.fromkeys(names, mount.path))
    return roots


def none_counts() -> MachineError:
    """Return the error for a machine without a hierarchy that counts CPU."""
    outside = (mount for mount in read_mounts() if mount.type in _TYPES and mount.root != "/")
    hidden = min(outside, key=lambda mount: mount.path, default=None)
    if hidden:  # mounted before this cgroup namespace was made, or by another one (cgroup_namespaces(7))
        reason = f"{hidden.path} shows control groups outside of the kit's cgroup namespace"
        fix = f"run the kit outside of that namespace, or mount the hierarchy again in it, on {hidden.path}"
        return MachineError(reason, granting(CGROUPS, fix))
    reason = "no cgroup hierarchy with CPU accounting is mounted"
    return MachineError(reason, granting(CGROUPS, "mount cgroup2 on /sys/fs/cgroup"))


def mode() -> str:
    """Return ``v2``, ``hybrid`` (v1 controllers, v2 hierarchy beside them), ``v1`` or ``none``."""
    roots = hierarchies()
    if UNIFIED in roots:
        return "v2" if len(roots) == 1 else "hybrid"
    return "v1" if roots else "none"


@dataclass(frozen=True)
class Cgroup:
    """One control group: its directory in each hierarchy that it exists in."""

    paths: Mapping[str, Path]

    @classmethod
    def named(cls, name: str) -> Cgroup:
        """Return the group with that name; it need not exist."""
        return cls({kind: mount / name for kind, mount in hierarchies().items()})

    @classmethod
    def of(cls, pid: int) -> Cgroup:
        """Return the group of a running process, in each hierarchy where the process is not in the root group."""
        mounts = hierarchies()
        paths: dict[str, Path] = {}
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            for name in (names.removeprefix("name=") or UNIFIED).split(","):
                if name in mounts and path != "/":
                    paths[name] = mounts[name] / path.lstrip("/")
        return cls(paths)

    @property
    def parent(self) -> Cgroup:
        return Cgroup({kind: path.parent for kind, path in self.paths.items()})

    @property
    def name(self) -> str:
        """Return the name that ``named`` takes; '' for the root group."""
        mounts = hierarchies()
        return next((str(path.relative_to(mounts[kind])) for kind, path in self.paths.items()), "")

    def create(self) -> Cgroup:
        """Create the group where CPU is accounted: in the unified hierarchy and, on v1, for cpuacct. No controller is
        enabled, so membership costs a bare arm only the accounting."""
        accounted = {kind: path for kind, path in self.paths.items() if kind in (UNIFIED, "cpuacct")}
        if not accounted:
            raise none_counts()
        try:
            for path in accounted.values():
                path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MachineError(f"can't make a cgroup: {error}", granting(RIGHTS, "run as root")) from None
        return Cgroup(accounted)

    def adopt(self, pid: int) -> None:
        """Move a process into this group. In all other hierarchies, move it to the root, where no controller
        applies."""
        mounts = hierarchies()
        targets = {mount: mount for mount in mounts.values()}  # several controllers may share one
        targets |= {mounts[kind]: path for kind, path in self.paths.items()}
        for path in targets.values():
            (path / "cgroup.procs").write_text(str(pid))

    @property
    def procs(self) -> tuple[Path, ...]:
        """Return the files to which a process writes its PID in order to join."""
        return tuple(path / "cgroup.procs" for path in self.paths.values())

    def cpu(self) -> CpuTimes | None:
        """Return the CPU of everything that ever ran in the group, from the scheduler's exact sum. None if no hierarchy
        counts it."""
        unified = self.paths.get(UNIFIED)
        if unified and (unified / "cpu.stat").exists():
            stat = _keyed(unified / "cpu.stat")
            if "user_usec" in stat:
                return CpuTimes(stat["user_usec"] / 1e6, stat["system_usec"] / 1e6)
        account = self.paths.get("cpuacct")
        if account and (account / "cpuacct.usage").exists():
            return _split_v1(account)
        return None

    def pressure(self, resource: str) -> float | None:
        """Return the seconds in which some task in the group or below waited for ``cpu``, ``io`` or ``memory``. None if
        the kernel does not count them: without a v2 hierarchy, or without CONFIG_PSI."""
        unified = self.paths.get(UNIFIED)
        return read_pressure(unified / f"{resource}.pressure") if unified else None

    def kill(self) -> None:
        """Send SIGKILL to everything in the group and below, and wait until it has ended. Frozen processes are thawed
        first: under v1 they would not die."""
        self.thaw()
        unified = self.paths.get(UNIFIED)
        deadline = time.monotonic() + 10
        while pids := self.pids():
            if unified and (unified / "cgroup.kill").exists():
                (unified / "cgroup.kill").write_text("1")
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise RunError(f"processes {sorted(pids)} of a session do not die", "look for them in state D with ps")
            time.sleep(0.01)

    def thaw(self) -> None:
        """Thaw everything in the group and below, whoever has frozen it."""
        for name, switch, word in ((UNIFIED, "cgroup.freeze", "0"), ("freezer", "freezer.state", "THAWED")):
            for directory, _, files in os.walk(self.paths.get(name, "")):
                if switch in files:
                    with contextlib.suppress(OSError):  # removed in the meantime
                        (Path(directory) / switch).write_text(word)

    def remove(self) -> None:
        """Kill what is in the group; remove the group and all groups below it, in every hierarchy."""
        self.kill()
        for path in self.paths.values():
            if path.is_dir():
                for directory, _, _ in os.walk(path, topdown=False):
                    _remove_directory(Path(directory))

    def pids(self) -> set[int]:
        """Return the PIDs of all processes in the group and below, in any hierarchy."""
        pids: set[int] = set()
        for path in self.paths.values():
            for directory, _, _ in os.walk(path):
                try:
                    pids.update(int(pid) for pid in (Path(directory) / "cgroup.procs").read_text().split())
                except OSError:
                    continue  # removed in the meantime
        return pids - {0}


def read_pressure(path: Path) -> float | None:
    """Return the sum of all waiting times in a pressure file, in seconds. None if the file does not exist."""
    try:
        first = path.read_text().splitlines()[0]
    except (OSError, IndexError):
        return None
    return int(first.rsplit("total=", 1)[1]) / 1e6


def _remove_directory(path: Path) -> None:
    """Retry while the group is busy: it stays busy for a moment after its last process has been reaped."""
    deadline = time.monotonic() + 5
    while True:
        try:
            path.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise RunError(f"cgroup {path} can't be removed: {error.strerror}", "run kit clean") from None
            time.sleep(0.01)


def _keyed(path: Path) -> dict[str, int]:
    return {key: int(value) for key, value in (line.split() for line in path.read_text().splitlines())}


def _split_v1(path: Path) -> CpuTimes:
    """Return v1's exact sum in nanoseconds, split by the tick-based user and system counts (cgroup-v1/cpuacct.rst)."""
    total = int((path / "cpuacct.usage").read_text()) / 1e9
    ticks = _keyed(path / "cpuacct.stat")
    counted = ticks["user"] + ticks["system"]
    share = ticks["user"] / counted if counted else 1.0
    return CpuTimes(total * share, total * (1 - share))


def machine_cpu() -> tuple[float, str]:
    """Return the seconds of CPU spent on the whole machine since boot, and their source.

    On v1 the root groups hold the scheduler's exact sums. Otherwise /proc/stat is read, which counts in ticks."""
    account = hierarchies().get("cpuacct")
    if account:
        return int((account / "cpuacct.usage").read_text()) / 1e9, "cpuacct.usage"
    busy = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq = map(int, busy[:7])
    return (user + nice + system + irq + softirq) / _USER_HZ, "/proc/stat"
