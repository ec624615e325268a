"""Tests what containers and storage drivers need of a guest's kernel, before the session starts."""

from __future__ import annotations

import ctypes
import errno
import platform
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kit.core.errors import MachineError
from kit.host.machine import kernel_filesystems
from kit.model.arm import Arm, driver_of
from kit.model.driver import KernelPart

#: bpf(2): its number, the command BPF_PROG_LOAD, and the program type of the device controller of cgroup v2.
_BPF = {"x86_64": 321, "aarch64": 280}
_PROG_LOAD, _CGROUP_DEVICE = 5, 15
_NAMESPACES = ("mnt", "pid", "ipc", "uts", "net", "cgroup")


def _device_program() -> bool:
    """Load the program "return 1" for the device controller (Documentation/bpf/prog_cgroup_sysctl.rst has its kin)."""
    instructions = (ctypes.c_uint64 * 2)(0x00000001000000B7, 0x0000000000000095)  # r0 = 1; exit
    license_ = ctypes.create_string_buffer(b"GPL")
    attribute = (ctypes.c_uint64 * 16)()
    attribute[0] = _CGROUP_DEVICE | 2 << 32
    attribute[1] = ctypes.addressof(instructions)
    attribute[2] = ctypes.addressof(license_)
    number = _BPF.get(platform.machine())
    if number is None:
        return True
    libc = ctypes.CDLL(None, use_errno=True)
    found: int = libc.syscall(number, _PROG_LOAD, ctypes.byref(attribute), ctypes.sizeof(attribute))
    return found >= 0 or ctypes.get_errno() not in (errno.ENOSYS, errno.EINVAL)


def _controllers() -> bool:
    path = Path("/sys/fs/cgroup/cgroup.controllers")
    return path.exists() and {"cpu", "memory", "pids"} <= set(path.read_text().split())


#: Requirements of every container: the kernel's options, and whether it has them.
_CONTAINERS: dict[str, Callable[[], bool]] = {
    "CONFIG_BPF_SYSCALL, CONFIG_CGROUP_BPF": _device_program,
    "CONFIG_NAMESPACES with all of them": lambda: all(Path(f"/proc/self/ns/{name}").exists() for name in _NAMESPACES),
    "CONFIG_POSIX_MQUEUE": lambda: "mqueue" in kernel_filesystems(),
}
#: Features that containers can omit, but that change how they run on a host.
_USUAL: dict[str, Callable[[], bool]] = {
    "CONFIG_SECCOMP_FILTER: containers run without seccomp": (
        lambda: Path("/proc/sys/kernel/seccomp/actions_avail").exists()
    ),
    "CONFIG_MEMCG, CONFIG_CGROUP_SCHED or CONFIG_CGROUP_PIDS: containers run without these limits": _controllers,
}


def _there(part: KernelPart) -> bool:
    return part.listed in Path("/proc", part.where).read_text().split()


def lacking(arms: Sequence[Arm]) -> Iterator[str]:
    """Return one sentence for each missing feature of the kernel. Raises MachineError if no container can run."""
    if not Path("/dev/loop-control").exists():
        raise MachineError(
            f"the guest's kernel {platform.release()} lacks CONFIG_BLK_DEV_LOOP",
            "build it in: kit help guest-kernels",
        )
    missing = [options for options, there in _CONTAINERS.items() if not there()]
    if missing and any(arm.contained for arm in arms):
        raise MachineError(
            f"the guest's kernel {platform.release()} runs no containers: it lacks {'; '.join(missing)}",
            "build these in (kit help guest-kernels), or use arms without a container: bare,union:overlay",
        )
    if any(arm.contained for arm in arms):
        for options, there in _USUAL.items():
            if not there():
                yield f"the guest's kernel {platform.release()} lacks {options}"
    yield from drivers_lacking(arms)


def drivers_lacking(arms: Sequence[Arm]) -> Iterator[str]:
    """Return the same for the requirements of drivers."""
    for name, part in {part.driver: driver_of(part).kernel for arm in arms for part in arm.parts}.items():
        if part and not _there(part):
            yield f"the guest's kernel {platform.release()} has no {part.called}: arms on {name} will not run"
