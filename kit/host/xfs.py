"""Has XFS free what was removed before its free space is read."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path

from kit.core.errors import RunError

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
