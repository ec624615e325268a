"""Backing filesystems: the filesystem below a storage driver or the bare tree.

A profile is an entry of ``profiles.toml``; each type of profile has a module. Imports host and core."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from kit.arms.filesystem.backing import Backing, BackingOptions
from kit.arms.filesystem.memory import written_back
from kit.arms.filesystem.nfs import served_backing
from kit.arms.filesystem.profile import Profile, bundled, read_profiles, recorded
from kit.core.errors import MachineError, UsageError
from kit.host.recovery.journal import Journal

Maker = Callable[[Profile, BackingOptions, Path, str, Journal], AbstractContextManager[Backing]]

#: What makes the filesystems of each type; a maker is imported on use.
MAKERS = {
    **dict.fromkeys(
        ("ext4", "ext3", "ext2", "xfs", "btrfs", "jfs", "reiserfs"), "kit.arms.filesystem.block:block_backing"
    ),
    "tmpfs": "kit.arms.filesystem.memory:memory_backing",
    "dir": "kit.arms.filesystem.plain:directory_backing",
    "nfs": "kit.arms.filesystem.nfs:nfs_backing",
    "zfs": "kit.arms.filesystem.zfs:zfs_backing",
}
#: Types without a disk of their own.
_NO_DISKS = ("dir", "nfs", "tmpfs")


def make_backing(
    name: str, options: BackingOptions, where: Path, label: str, journal: Journal
) -> AbstractContextManager[Backing]:
    """Yield a new backing filesystem of that profile, mounted at ``where`` for the length of the block. ``label``: the
    session's, part of all names."""
    profile = find_profile(name, options)
    if profile.type != "dir" and os.geteuid() != 0:
        raise MachineError(
            "making and mounting a filesystem needs root", "run as root: sudo kit …, or use arms on @dir"
        )
    if profile.type == "nfs" and profile.server and not (options.export or profile.source):
        disk = make_backing(profile.server, options, where.with_name(f"{where.name}-disk"), label, journal)
        return served_backing(disk, profile, options, where)
    maker: Maker = pkgutil.resolve_name(MAKERS[profile.type])
    backing = maker(profile, options, where, label, journal)
    if profile.type != "tmpfs" or not profile.write_back:
        return backing
    copy = where.with_name(f"{where.name}-copy")
    return written_back(backing, make_backing(profile.write_back, options, copy, label, journal), profile.every)


def find_profile(name: str, options: BackingOptions) -> Profile:
    """Raises UsageError if the profile does not exist, its type is unknown, or its disk is not a disk profile."""
    profile = _known(name, options)
    if profile.write_back and _known(profile.write_back, options).write_back:
        raise UsageError(
            f"filesystem {name}: {profile.write_back} is written back itself",
            "name the profile of a disk in write_back",
        )
    if profile.server and _known(profile.server, options).type in _NO_DISKS:
        raise UsageError(f"filesystem {name}: {profile.server} is not a disk", "name the profile of a disk in server")
    return profile


def _known(name: str, options: BackingOptions) -> Profile:
    if name not in options.profiles:
        raise UsageError(f"unknown filesystem '{name}'", f"use one of: {', '.join(options.profiles)}; or --fs-file")
    profile = options.profiles[name]
    if profile.type not in MAKERS:
        raise UsageError(f"filesystem {name}: unknown type '{profile.type}'", f"use one of: {', '.join(MAKERS)}")
    return profile


__all__ = [
    "MAKERS",
    "Backing",
    "BackingOptions",
    "Profile",
    "bundled",
    "find_profile",
    "make_backing",
    "read_profiles",
    "recorded",
]
