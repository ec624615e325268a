"""Attributes of a directory besides mode and owner: extended attributes with access control lists, flags
(ioctl_iflags(2)) and times. Flags can also prevent the removal of files."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
from dataclasses import dataclass

#: From linux/fs.h; POWER codes the direction of an ioctl's data in other bits.
_OUT, _IN = (1 << 30, 1 << 31) if platform.machine().startswith("ppc") else (1 << 31, 1 << 30)
_GET_FLAGS, _SET_FLAGS = _OUT | 0x86601, _IN | 0x86602
_GET_MORE, _SET_MORE = _OUT | 0x1C581F, _IN | 0x1C5820
_IMMUTABLE, _APPEND = 0x10, 0x20
#: Flags that the filesystem sets itself, for example as a directory grows: encrypted, indexed, huge, extents, verity,
#: inline.
_ITS_OWN = 0x800 | 0x1000 | 0x40000 | 0x80000 | 0x100000 | 0x10000000
#: Of struct fsxattr, the number of extents.
_EXTENTS = slice(8, 12)
#: The only attribute of its namespace that belongs to an image. A policy of the machine's owns the others, and sets
#: them itself: SELinux's label, IMA's and EVM's digests. It also refuses those that an image brings (xattr(7)).
CAPABILITY = "security.capability"
_SECURITY = "security."
#: tar's options for all attributes except those, by a pattern (fnmatch(3)).
TAR_ATTRIBUTES = ("--xattrs", "--xattrs-include=*", "--xattrs-exclude=security.[!c]*")
_LACKING = (errno.ENOTTY, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EACCES)


@dataclass(frozen=True)
class Attributes:
    """Attributes of a directory. ``flags`` and ``more`` (struct fsxattr: extent sizes, project) are None if the
    filesystem lacks them."""

    xattrs: tuple[tuple[str, bytes], ...]
    flags: int | None
    more: bytes | None
    accessed: int  # in nanoseconds
    changed: int


def read_attributes(directory: int) -> Attributes:
    """Return the attributes of an open directory. Raises OSError."""
    info = os.fstat(directory)
    xattrs = tuple((name, os.getxattr(directory, name)) for name in sorted(_names(directory)))
    return Attributes(xattrs, _flags(directory), _more(directory), info.st_atime_ns, info.st_mtime_ns)


def write_attributes(directory: int, target: Attributes, mode: int, uid: int, gid: int) -> None:
    """Give an open directory exactly these attributes, and remove all others. Raises OSError."""
    release(directory)
    os.fchown(directory, uid, gid)
    xattrs = dict(target.xattrs)
    for name in _names(directory):
        if name not in xattrs:
            _remove_named(directory, name)
    there = _names(directory)
    for name, value in xattrs.items():
        if name not in there or os.getxattr(directory, name) != value:
            os.setxattr(directory, name, value)
    os.fchmod(directory, mode)
    flags, more = _flags(directory), _more(directory)
    if target.flags is not None and flags is not None and flags != target.flags:
        _set_flags(directory, target.flags)
    if target.more is not None and more is not None and more != target.more:
        fcntl.ioctl(directory, _SET_MORE, target.more)
    os.utime(directory, ns=(target.accessed, target.changed))


def release(descriptor: int) -> bool:
    """Clear the flags of an open file or directory that forbid changes or removal; return whether it had one. Raises
    OSError."""
    flags = _flags(descriptor) or 0
    if not flags & (_IMMUTABLE | _APPEND):
        return False
    _set_flags(descriptor, flags & ~(_IMMUTABLE | _APPEND))
    return True


def is_policys(name: str) -> bool:
    """Return whether an extended attribute is set by a policy of the machine's, not by an image."""
    return name.startswith(_SECURITY) and name != CAPABILITY


def _names(directory: int) -> list[str]:
    try:
        return [name for name in os.listxattr(directory) if not is_policys(name)]
    except OSError as error:
        if error.errno in _LACKING:
            return []
        raise


def _remove_named(directory: int, name: str) -> None:
    try:
        os.removexattr(directory, name)
    except OSError as error:
        if error.errno != errno.ENODATA:  # XFS lists an access control list by two names
            raise


def _flags(descriptor: int) -> int | None:
    buffer = _asked(descriptor, _GET_FLAGS, bytes(8))
    return None if buffer is None else int.from_bytes(buffer[:4], "little") & ~_ITS_OWN


def _set_flags(descriptor: int, flags: int) -> None:
    buffer = _asked(descriptor, _GET_FLAGS, bytes(8)) or bytes(8)
    preserved = int.from_bytes(buffer[:4], "little") & _ITS_OWN
    fcntl.ioctl(descriptor, _SET_FLAGS, (flags | preserved).to_bytes(8, "little"))


def _more(directory: int) -> bytes | None:
    buffer = _asked(directory, _GET_MORE, bytes(28))
    if buffer is None:
        return None
    return buffer[: _EXTENTS.start] + bytes(4) + buffer[_EXTENTS.stop :]


def _asked(descriptor: int, request: int, room: bytes) -> bytes | None:
    """Return the answer of an ioctl; None if the filesystem does not support it."""
    try:
        return fcntl.ioctl(descriptor, request, room)
    except OSError as error:
        if error.errno in _LACKING:
            return None
        raise
