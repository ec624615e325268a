"""Parts of the running kernel: filesystems and devices. Most kernels keep them in modules, which are loaded on
demand, so what /proc lists is not yet all that the kernel can do."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

from kit.core.errors import MachineError
from kit.host.command import CommandError, install_fix, run, which
from kit.host.container import RIGHTS, granting
from kit.host.machine import os_release
from kit.model.drivers import KernelPart

LOOP = KernelPart("loop devices (CONFIG_BLK_DEV_LOOP)", "loop-control", ("loop",), where="misc")
NFS = KernelPart("nfs", "nfs", ("nfs",))
NFS_SERVER = KernelPart("NFS server", "nfsd", ("nfsd",))
ZFS = KernelPart("zfs", "zfs", ("zfs",))
_ROOT = Path("/")
#: Of fsopen(2), on every architecture.
_FSOPEN, _CLOEXEC = 430, 1
#: The option of docker run by which a container can load the machine's modules.
_MODULES = f"{RIGHTS} --volume /lib/modules:/lib/modules:ro"


def filesystem_part(kind: str) -> KernelPart:
    """Return the part for a type of filesystem whose module has its name."""
    return KernelPart(kind, kind, (kind,))


def is_ready(part: KernelPart, root: Path = _ROOT) -> bool:
    """Return whether the kernel has the part without loading a module."""
    with suppress(OSError):  # a container may hide the file
        return part.listed in (root / "proc" / part.where).read_text().split()
    return False


def can_load(part: KernelPart) -> bool:
    """Return whether the part's modules are on the disk, for the running kernel. Loads nothing."""
    if not which("modprobe"):
        return False
    try:
        run(["modprobe", "-D", "-q", part.modules[0]])
    except CommandError:
        return False
    return True


def require_part(part: KernelPart, fix: str = "", root: Path = _ROOT) -> None:
    """Check that the kernel has a part; root loads its modules first. For an ordinary user modules on the disk are
    enough: the kernel loads them for the program that mounts. Raises MachineError with ``fix`` where there is no such
    module."""
    if is_ready(part, root):
        return
    if os.geteuid() == 0:
        why, other_fix = _load(part, root)
    elif can_load(part):
        return
    else:
        why, other_fix = why_not_loaded(" ".join(part.modules), root)
    if not is_ready(part, root):
        raise MachineError(f"this kernel has no {part.called}{why}", other_fix or fix or _another_kernel())


def loaded_modules(root: Path = _ROOT) -> frozenset[str]:
    """Return the names of all loaded modules; nothing for a kernel without modules."""
    with suppress(OSError):
        return frozenset(line.split()[0] for line in (root / "proc/modules").read_text().splitlines())
    return frozenset()


def _load(part: KernelPart, root: Path) -> tuple[str, str]:
    """Load the part's modules. Return why that failed, and the fix for it; two empty texts where there is no such
    module, or where they are loaded."""
    if part.where == "filesystems":
        _ask_kernel(part.listed)
        if is_ready(part, root):
            return "", ""
    names = " ".join(part.modules)
    why, fix = why_not_loaded(names, root)
    if why:
        return why, fix
    try:
        run(["modprobe", "-a", *part.modules], what="modprobe")
    except CommandError as error:
        if can_load(part):
            return f": {error.message}", f"see with modprobe -c whether a file of /etc/modprobe.d forbids {names}"
    return "", ""


def _ask_kernel(filesystem: str) -> None:
    """Have the kernel look for a type of filesystem, as a mount does (fsopen(2), Linux 5.2): it loads the module with
    the machine's modprobe, also where a container has none. Nothing is mounted."""
    with suppress(OSError):
        os.close(ctypes.CDLL(None).syscall(_FSOPEN, filesystem.encode(), _CLOEXEC))  # -1 is no file: EBADF


def why_not_loaded(names: str, root: Path = _ROOT) -> tuple[str, str]:
    """Return why no module can be loaded here, and the fix; two empty texts where modules can be loaded. A kernel that
    has none has no fix. ``names``: of the modules; ``root``: the directory above /lib/modules."""
    if not (root / "proc/modules").exists():
        return ", and it loads no modules", ""
    loading = f"run modprobe {names} on the machine"
    with suppress(OSError):
        if (root / "proc/sys/kernel/modules_disabled").read_text().strip() == "1":
            return " yet, and it loads no more modules (kernel.modules_disabled)", f"reboot, and {loading} early"
    release = os.uname().release
    directory = root / "lib/modules" / release
    if not directory.is_dir() and not (root / "run/booted-system/kernel-modules").is_dir():  # the second is NixOS's
        others = sorted(path.name for path in directory.parent.glob("*")) if directory.parent.is_dir() else []
        if others:
            return f" yet, and {directory} is gone, as after an upgrade (to {others[-1]})", "reboot into that kernel"
        return f" yet, and there is no {directory}", granting(_MODULES, loading)
    if not which("modprobe"):
        return " yet, and modprobe is not installed", granting(_MODULES, install_fix("kmod", "modprobe"))
    return "", ""


def _another_kernel() -> str:
    ubuntu = os_release().get("ID") == "ubuntu"
    more = f"run apt-get install linux-modules-extra-{os.uname().release}, or " if ubuntu else ""
    return f"{more}boot a kernel that has it, or use a guest: kit kernel --help"
