"""Facts of this machine that numbers depend on, frozen at the start of a session.

Which machine it is: the id that its system has made for it (machine-id(5)), else one that the kit makes."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import MachineError
from kit.core.paths import find_paths, machine_root
from kit.core.private import make_private, passable_mode
from kit.core.regular import open_regular
from kit.host.cgroup import cgroup
from kit.host.durable import write_file


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


_FILE = "etc/machine-id"
#: An image's file is empty or says "uninitialized": its id would be that of all machines that run it.
_ID = re.compile(r"[0-9a-f]{32}")
_LINKS = 8


def hashed_machine_id() -> str:
    """Return a hash that tells machines apart without naming them."""
    identity = _given(machine_root()) or _kept()
    return hashlib.sha256(f"storage-driver-test-kit {identity}".encode()).hexdigest()[:12]


def _given(root: Path) -> str:
    """Return the id of the system in ``root``; '' if it has none."""
    return _read_id(_below(root, _FILE))


def _below(root: Path, name: str) -> Path:
    """Return the file that a name means in ``root``, where absolute links begin, too; a link if it means none."""
    for _ in range(_LINKS):
        path = root / name
        if not path.is_symlink():
            break
        name = os.path.normpath(f"/{Path(name).parent / path.readlink()}").lstrip("/")
    return root / name


def _kept() -> str:
    """Return a random id that stays in the state directory; 'unknown' if it can't stay there."""
    try:
        file = find_paths().state / "machine-id"
        if not (text := _read_id(file)):
            make_private(file.parent, passable_mode())
            write_file(file, f"{secrets.token_hex(16)}\n".encode())
            text = _read_id(file)
    except (OSError, MachineError):
        text = ""
    return text or "unknown"


def _read_id(file: Path) -> str:
    try:
        with open_regular(file, os.O_NOFOLLOW) as opened:
            text = opened.read(64).decode("ascii", "replace").strip()
    except OSError:
        return ""
    return text if _ID.fullmatch(text) else ""
