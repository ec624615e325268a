"""Facts of this machine that numbers depend on, frozen at the start of a session."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from kit.host.cgroup import cgroup
from kit.host.machine_id import hashed_machine_id


@dataclass(frozen=True)
class Host:
    kernel: str
    distribution: str
    cpu: str
    cores: int
    microcode: str
    governor: str
    virtualization: str
    memory_bytes: int
    cgroup_mode: str
    overlay: tuple[tuple[str, str], ...]  # module parameters: metacopy, redirect_dir, index, xino …
    root: bool
    machine: str  # see hashed_machine_id


def os_release() -> dict[str, str]:
    """Return what os-release(5) says of this machine's distribution; nothing where there is no such file."""
    return platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}


def read_host() -> Host:
    release = os_release()
    return Host(
        kernel=f"{platform.release()} {platform.version()}",
        distribution=release.get("PRETTY_NAME", "unknown"),
        cpu=_cpuinfo("model name"),
        cores=len(os.sched_getaffinity(0)),
        microcode=_cpuinfo("microcode"),
        governor=_read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        virtualization=_virtualization(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        cgroup_mode=cgroup.mode(),
        overlay=_overlay_parameters(),
        root=os.geteuid() == 0,
        machine=hashed_machine_id(),
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip("\0\n ")
    except OSError:
        return "unknown"


def cpu_flags() -> frozenset[str]:
    """Return the features of the CPU, as /proc/cpuinfo names them."""
    return frozenset(_cpuinfo("flags").split())


def most_mappings() -> int:
    """Return how many mappings of memory a process may have; 0 if the kernel does not say."""
    text = _read("/proc/sys/vm/max_map_count")
    return int(text) if text.isdecimal() else 0


def _cpuinfo(key: str) -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "unknown"


def _virtualization() -> str:
    vendor = _read("/sys/class/dmi/id/sys_vendor")
    if "hypervisor" not in cpu_flags():
        return "none"
    return "virtual machine" if vendor == "unknown" else f"virtual machine ({vendor})"


def _overlay_parameters() -> tuple[tuple[str, str], ...]:
    directory = Path("/sys/module/overlay/parameters")
    names = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    return tuple((name, _read(f"{directory}/{name}")) for name in names)
