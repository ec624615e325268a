"""Backing filesystems that are a directory on something mounted: one that the user gave, or an NFS export."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.core.errors import MachineError, UsageError
from kit.filesystem.backing import Backing, BackingOptions, block_number
from kit.filesystem.block import unmount
from kit.filesystem.mounted import unconfirmed
from kit.filesystem.profile import Profile
from kit.host.command import require, run
from kit.host.journal import Journal
from kit.host.machine import kernel_filesystems
from kit.host.mounts import mount_of

#: Overlay's mount options and Docker's bind mounts are lists: what divides them can't be in a path.
_DIVIDERS = re.compile(r"[,:\\\n\"]")


def check_directory(path: Path) -> None:
    """Whether engines can be told to keep their files there. Raises UsageError."""
    found = _DIVIDERS.search(str(path))
    if found:
        raise UsageError(
            f"--dir {path}: no overlay and no engine can be told of a path with {found[0]!r} in it",
            f"mount --bind {shlex.quote(str(path))} /mnt, and --dir /mnt",
        )


@contextmanager
def directory_backing(
    profile: Profile, options: BackingOptions, where: Path, label: str, journal: Journal
) -> Iterator[Backing]:
    """A new directory inside ``options.directory``, removed afterwards; the user's other files are not touched."""
    parent = options.directory or options.images
    check_directory(parent)
    parent.mkdir(parents=True, exist_ok=True)
    if not parent.is_dir():
        raise UsageError(f"{parent} is not a directory", "name one with --dir")
    path = parent / f"kit-{label}"
    with journal.directory(path):
        mount = mount_of(path)
        yield Backing(
            profile.name, path, f"directory of {mount.source}", mount.type, mount.options, block_number(mount)
        )


@contextmanager
def nfs_backing(
    profile: Profile, options: BackingOptions, where: Path, label: str, journal: Journal
) -> Iterator[Backing]:
    """A new directory of an NFS export, removed afterwards. Raises MachineError where the kernel has no NFS."""
    export = options.export or profile.source
    if not export:
        raise MachineError(f"{profile.name}: no export is named", "--export HOST:/PATH")
    if not kernel_filesystems() & {"nfs", "nfs4"}:
        raise MachineError("this kernel has no nfs", "modprobe nfs, or boot a kernel that has it")
    require("mount.nfs")
    where.mkdir(parents=True, exist_ok=True)
    wanted = options.mount_options(profile)
    words: list[str | Path] = ["mount", "-t", "nfs", *(["-o", ",".join(wanted)] if wanted else []), export, where]
    run(words, what=f"mount of {export}")
    try:
        mount = mount_of(where)
        path = where / f"kit-{label}"
        silent = unconfirmed(profile.name, (*wanted, *profile.expect), mount)
        with journal.directory(path):
            yield Backing(profile.name, path, f"export {export}", mount.type, mount.options, None, silent)
    finally:
        unmount(where)
