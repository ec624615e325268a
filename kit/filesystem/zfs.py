"""ZFS: accepted in the grammar, not run until a machine has it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from kit.errors import MachineError
from kit.filesystem.backing import Backing, BackingOptions
from kit.filesystem.profile import Profile
from kit.host import kernel_filesystems
from kit.journal import Journal


def zfs_backing(
    profile: Profile, options: BackingOptions, where: Path, journal: Journal
) -> AbstractContextManager[Backing]:
    if "zfs" not in kernel_filesystems():
        raise MachineError("this kernel has no zfs", "install zfs-dkms for this kernel, then modprobe zfs")
    raise MachineError("zfs pools are not made by this version of the kit", "use another filesystem")
