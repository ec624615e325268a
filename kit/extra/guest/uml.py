"""User-Mode Linux (Documentation/virt/uml/user_mode_linux_howto_v2.rst): a kernel that is a process of the host.

It needs no virtualisation, has one CPU, and splits user and system time badly. Debian unstable's version runs where
older ones crash. Its C library is newer than a host's, so it runs from a root filesystem of that suite."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path

from kit.core.errors import MachineError
from kit.extra.guest.kernel import OWN, release_of
from kit.extra.guest.machine import COPY, READ, Boot, Disk, Kernel, Tools, kernel_words
from kit.host.machine import cpu_flags, most_mappings
from kit.model.fact import ACCELERATOR, GUEST, Fact

_PROGRAM = Path("usr/bin/linux.uml")
#: User-Mode Linux maps a page of its process by itself where no neighbour lies beside it in the guest's memory as well.
#: A process that needs more mappings than the host allows hangs in a page fault that never ends, or is killed.
#: Fedora and Ubuntu set this: 4 GiB of single pages.
_ENOUGH = 1 << 20


class UserModeLinux:
    kind = "uml"
    channel = "/dev/ttyS0"
    patience = 120.0

    def __init__(self, tools: Tools, kernel: Kernel) -> None:
        self._tools = tools
        self._kernel = kernel

    def check(self) -> None:
        root = self._tools.root("uml")
        if not root.path or not (root.path / _PROGRAM).is_file():
            raise MachineError("the image uml holds no User-Mode Linux", "run kit image build uml --force")

        if self._kernel.path:
            check_registers(self._kernel.path, cpu_flags())

    def warning(self) -> str:
        return few_mappings(most_mappings())

    def cores(self, host: int) -> int:
        return 1

    def command(self, boot: Boot) -> list[str]:
        root = self._tools.root("uml")
        program = f"/{_PROGRAM}"
        if self._kernel.path:
            copy = Path(shutil.copyfile(self._kernel.path, boot.directory / "linux"))
            copy.chmod(0o700)  # whatever way it came here, a download for example
            program = str(copy)
        words = [
            *("env", "TMPDIR=/tmp"),  # its memory is a file that it executes; the machine's /dev/shm may be noexec
            program,
            f"mem={boot.memory >> 20}M",
            *(_disk(number, disk, boot.directory) for number, disk in enumerate(boot.disks)),
            *kernel_words("/dev/ubda", self.channel),
            "con=null",
            "con0=null,fd:1",
            f"ssl0=null,fd:{boot.channel}",
            "seccomp=on",  # twice as fast as ptrace where the kernel has it (6.16); others ignore it
            "uml_dir=/tmp",
        ]
        shared = sorted({boot.directory, *(disk.path.parent for disk in boot.disks)})
        # A system call is a switch between two processes of the host: on one CPU it costs a third of a switch between
        # two CPUs.
        return ["taskset", "--cpu-list", str(max(os.sched_getaffinity(0))), *root.enter(words, shared)]

    def modules(self) -> Path | None:
        if self._kernel.path:
            return self._kernel.modules
        root = self._tools.root("uml")
        assert root.path
        return next((root.path / "usr/lib/uml/modules").iterdir())

    def facts(self) -> list[Fact]:
        slow = "none; the kernel is a process, and system calls and page faults cost it several times more"
        return [GUEST.fact("User-Mode Linux"), ACCELERATOR.fact(slow)]

    def accelerated(self) -> bool:
        return False


def few_mappings(limit: int) -> str:
    """Return why large processes of a guest may hang here, and the fix; '' with enough mappings, or if the
    kernel does not say."""
    if not limit or limit >= _ENOUGH:
        return ""
    size = limit * os.sysconf("SC_PAGE_SIZE") >> 20
    return (
        f"a program of more than {size} MiB may hang or be killed in this guest: vm.max_map_count is {limit}; "
        f"fix: sudo sysctl -w vm.max_map_count={_ENOUGH}"
    )


def check_registers(kernel: Path, flags: Collection[str]) -> None:
    """Raises MachineError for a kernel that dies at its first process on a CPU with these features. Until 6.13 its
    buffer for ptrace(2)'s NT_X86_XSTATE had 2,696 bytes. With AMX the state has 11,008 bytes, and the host accepts no
    part of it (EFAULT)."""
    release = release_of(kernel)
    version = re.match(r"(\d+)\.(\d+)", release)
    if "amx_tile" not in flags or version is None or OWN in release:
        return
    if (int(version[1]), int(version[2])) < (6, 13):
        raise MachineError(
            f"{kernel} is User-Mode Linux {release}, which dies on a CPU with AMX, as this one is",
            "use a kernel of kit kernel build, which has the fix, or Linux 6.13 or later",
        )


def _disk(number: int, disk: Disk, directory: Path) -> str:
    """Return ``ubd0=copy,base``; ``r`` for a read-only one."""
    if disk.mode == COPY:
        return f"ubd{number}={directory / f'copy-{number}'},{disk.path}"
    return f"ubd{number}{'r' if disk.mode == READ else ''}={disk.path}"
