"""A mounted backing filesystem, and the user's options for making it."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from kit.arms.filesystem.profile import Profile, bundled
from kit.core.errors import SESSION_LOG, RunError
from kit.core.quantity import split_words
from kit.host.command import Process, died
from kit.host.durable import sync_filesystem
from kit.host.page_cache import counts_whole_folios

GIB = 1 << 30
DEFAULT_SIZE = 20 * GIB


@dataclass(frozen=True)
class BackingOptions:
    """``mkfs`` and ``mount`` contain pairs (filesystem, options), added to the kit's own; an option replaces its
    opposite."""

    size: int = DEFAULT_SIZE
    images: Path = Path("/var/tmp")  # where loop images lie
    directory: Path | None = None
    device: Path | None = None
    wipe: tuple[Path, ...] = ()  # devices that the user permits to overwrite
    mkfs: tuple[tuple[str, str], ...] = ()
    mount: tuple[tuple[str, str], ...] = ()
    export: str = ""  # HOST:/PATH, for NFS
    profiles: Mapping[str, Profile] = field(default_factory=bundled)

    def mkfs_words(self, profile: Profile) -> tuple[str, ...]:
        extra = (text for name, text in self.mkfs if name == profile.name)
        return (*profile.mkfs, *(word for text in extra for word in split_words(text, f"--mkfs {profile.name}:")))

    def mount_options(self, profile: Profile) -> tuple[str, ...]:
        extra = (text for name, text in self.mount if name == profile.name)
        added = tuple(option for text in extra for option in text.split(",") if option)
        reversed_ = {option.partition("=")[0] for option in added}
        return (*(option for option in profile.mount if option.removeprefix("no") not in reversed_), *added)


@dataclass(frozen=True)
class Backing:
    """A backing filesystem, ready for use. ``device`` is MAJOR:MINOR of its block device, None where it has none."""

    name: str
    path: Path
    kind: str  # loop, loop (direct I/O), device, tmpfs, directory, export
    type: str
    options: str
    device: str | None
    unconfirmed: tuple[str, ...] = ()  # options asked for that the kernel does not show
    write_back: Callable[[], None] | None = None  # copies it to its disk
    alive: Callable[[], str] = str  # why its program is dead, or ''
    origin: Path | None = None  # the same directory, without the session's mounts

    def outside(self, path: Path) -> Path:
        """Return the path of ``path`` for a process outside the session's mount namespace."""
        return (self.origin or self.path) / path.relative_to(self.path)

    @cached_property
    def whole_folios(self) -> bool:
        """Whether its kernel counts dirtied bytes by whole folios: tried once, not before each run."""
        return counts_whole_folios(self.path)

    def check_alive(self) -> None:
        """Raises RunError."""
        reason = self.alive()
        if reason:
            raise RunError(reason, "see dmesg")

    def sync(self) -> None:
        """Write back everything dirty, and free removed files. A sync through a union (fuse-overlayfs) does not do
        that. Raises RunError."""
        self.check_alive()
        if self.write_back:
            self.write_back()
        if self.type == "xfs":
            free_removed(self.path, preallocated=self.origin is None)  # not in a filesystem of the user's
        sync_filesystem(self.path)

    def full(self) -> str:
        """Return a sentence if the filesystem has run out of space or inodes, else ''."""
        stat = os.statvfs(self.path)
        if stat.f_blocks and stat.f_bavail / stat.f_blocks < 0.005:
            return f"the backing filesystem {self.name} is full ({stat.f_blocks * stat.f_frsize / GIB:.1f} GiB)"
        if stat.f_files and stat.f_favail == 0:
            return f"the backing filesystem {self.name} has no inodes left"
        return ""


def why_dead(what: str, process: Process) -> str:
    """Return why the filesystem's program is dead; '' while it runs."""
    how = died(process)
    return f"{what} died ({how}): {SESSION_LOG}" if how else ""


#: XFS_IOC_FREE_EOFBLOCKS and its struct xfs_fs_eofblocks, version 1 (fs/xfs/libxfs/xfs_fs.h).
_FREE_EOFBLOCKS = 0x8080583A


def _eofblocks(flags: int, least_size: int = 0) -> bytes:
    return struct.pack("<6IQ12Q", 1, flags, 0, 0, 0, 0, least_size, *[0] * 12)


_EVERY_FILE = _eofblocks(1)  # and wait
_NO_FILE = _eofblocks(1 << 4, (1 << 64) - 1)  # those of this size and above


def free_removed(directory: Path, preallocated: bool) -> None:
    """Wait until XFS has freed the files that programs removed. Since Linux 5.14 it frees them in the background, and
    statvfs(3) still counts them after syncfs(2). At its end this ioctl waits for that work. ``preallocated``: free too
    what XFS has preallocated behind the end of files, which it would give back minutes later. Raises RunError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _FREE_EOFBLOCKS, _EVERY_FILE if preallocated else _NO_FILE)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTTY, errno.EROFS):  # without root it stays as it is
            raise RunError(f"{directory}: XFS can't free removed files: {error.strerror}", "see dmesg") from None
    finally:
        os.close(descriptor)
