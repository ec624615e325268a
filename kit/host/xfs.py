"""Has XFS free what was removed before its free space is read."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path

from kit.core.errors import RunError

#: XFS_IOC_FREE_EOFBLOCKS and its struct xfs_fs_eofblocks, version 1, for files of this size and above
#: (fs/xfs/libxfs/xfs_fs.h). No file is that large, so no preallocated block is freed.
_FREE_EOFBLOCKS = 0x8080583A
_NO_FILE = struct.pack("<6IQ12Q", 1, 1 << 4, 0, 0, 0, 0, (1 << 64) - 1, *[0] * 12)


def free_removed(directory: Path) -> None:
    """Wait until XFS has freed the files that programs removed. Since Linux 5.14 it frees them in the background, and
    statvfs(3) still counts them after syncfs(2). At its end this ioctl waits for that work. Raises RunError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _FREE_EOFBLOCKS, _NO_FILE)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTTY, errno.EROFS):  # without root it stays as it is
            raise RunError(f"{directory}: XFS can't free removed files: {error.strerror}", "see dmesg") from None
    finally:
        os.close(descriptor)
