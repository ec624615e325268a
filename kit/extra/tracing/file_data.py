"""What the kernel says of a file beyond stat(2): an identity that no later file gets, and which data it has alone."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from functools import cache
from pathlib import Path

from kit.core.regular import open_regular

_AT_FDCWD, _LONGEST_HANDLE = -100, 128
#: From linux/fs.h and linux/fiemap.h: the request, the head (start, length, flags, extents returned, room), an extent.
_FIEMAP, _HEAD, _EXTENT, _ROOM = 0xC020660B, struct.Struct("=QQIII4x"), struct.Struct("=Q8xQ16xI12x"), 512
_LAST, _UNWRITTEN, _SHARED = 0x1, 0x800, 0x2000
_LACKING = (errno.ENOTTY, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EBADR)


class _Handle(ctypes.Structure):
    _fields_ = (("size", ctypes.c_uint), ("type", ctypes.c_int), ("text", ctypes.c_ubyte * _LONGEST_HANDLE))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def handle(path: str | os.PathLike[str], inode: int) -> bytes:
    """Return what identifies the file at ``path``, which is not followed, on its filesystem. It is the handle, with the
    inode's generation: ext4 gives the number of a removed file to the next one. A filesystem without handles gives
    ``inode`` alone."""
    record, mount = _Handle(size=_LONGEST_HANDLE), ctypes.c_int()
    words = (_AT_FDCWD, os.fsencode(path), ctypes.byref(record), ctypes.byref(mount), 0)
    if _libc().name_to_handle_at(*words) != 0:
        return b"inode %d" % inode
    return b"%d " % record.type + bytes(record.text[: record.size])


def own_data(path: str | os.PathLike[str], size: int) -> int | None:
    """Return the bytes among the first ``size`` of a regular file that it shares with no other file; holes are none.
    None if the filesystem does not list extents. Raises OSError."""
    with open_regular(Path(path), os.O_NOFOLLOW) as file:
        try:
            return _own_extents(file.fileno(), size)
        except OSError as error:
            if error.errno in _LACKING:
                return None
            raise


def _own_extents(file: int, size: int) -> int:
    start, exclusive = 0, 0
    while start < size:
        listed = bytearray(_HEAD.size + _ROOM * _EXTENT.size)
        _HEAD.pack_into(listed, 0, start, size - start, 0, 0, _ROOM)
        fcntl.ioctl(file, _FIEMAP, listed)
        count = _HEAD.unpack_from(listed)[3]
        flags = _LAST
        for offset in range(_HEAD.size, _HEAD.size + count * _EXTENT.size, _EXTENT.size):
            logical, length, flags = _EXTENT.unpack_from(listed, offset)
            if not flags & (_UNWRITTEN | _SHARED):
                exclusive += max(0, min(logical + length, size) - max(logical, start))
            start = max(start, logical + length)
        if flags & _LAST:
            break
    return exclusive
