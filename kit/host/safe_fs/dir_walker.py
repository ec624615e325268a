"""A walk through a tree by descriptors of its directories: safe against symlinks, renames and any depth.

Beside it, what a directory has besides mode and owner: extended attributes with access control lists, flags
(ioctl_iflags(2)) and times. Flags can also prevent the removal of files."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import RunError

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


_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Maximum number of descriptors held for parent directories. Beyond that the walker goes up by ".." and verifies where
#: it is.
_HELD = 32

_Identity = tuple[int, int]


class MountedError(RunError):
    """A mount was found where the walk was to continue."""


class DirWalker:
    """Holds one open directory. ``names`` lead to it from the top. Close it, or use it as a context manager."""

    def __init__(self, top: int, where: str) -> None:
        """``top``: a descriptor, which is duplicated. ``where``: its path, for errors."""
        self.descriptor = os.dup(top)
        self.names: list[str] = []
        self._where = where
        self._mount = _mount_id(self.descriptor)
        self._above: list[int | _Identity] = []

    def __enter__(self) -> DirWalker:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for level in (self.descriptor, *self._above):
            if isinstance(level, int):
                os.close(level)
        self._above.clear()

    def path(self, name: str = "") -> str:
        """Return the printable path of the open directory, or of a name in it."""
        whole = "/".join([self._where, *self.names, *([name] if name else [])])
        return os.fsencode(whole).decode(errors="backslashreplace")

    def enter(self, name: str, only_look: bool = False) -> None:
        """Go down into a directory. Raises OSError (also for a symlink), and MountedError unless the caller only
        reads."""
        descriptor = open_directory(name, self.descriptor)
        if not only_look and _mount_id(descriptor) != self._mount:
            os.close(descriptor)
            raise self.mounted(name)
        self._above.append(self.descriptor)
        self.descriptor = descriptor
        self.names.append(name)
        far = len(self._above) - _HELD - 1
        if far >= 0 and isinstance(parent := self._above[far], int):
            self._above[far] = _identity(parent)
            os.close(parent)

    def leave(self) -> str:
        """Go up; return the name of the directory just left. Raises RunError if that directory has been moved
        meanwhile."""
        back = self._above[-1]
        if not isinstance(back, int):
            above = open_directory("..", self.descriptor)
            if _identity(above) != back:
                os.close(above)
                raise RunError(f"{self.path()} was moved while it was walked", "stop what still runs there")
            back = above
        self._above.pop()
        os.close(self.descriptor)
        self.descriptor = back
        return self.names.pop()

    def go(self, names: Sequence[str]) -> None:
        """Go to the directory to which these names lead from the top. Raises the errors of enter and leave."""
        while self.names != [*names[: len(self.names)]]:
            self.leave()
        for name in names[len(self.names) :]:
            self.enter(name)

    def open_up(self, name: str) -> None:
        """Grant this user the permissions that its own directory denies. Raises OSError, MountedError."""
        descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.descriptor)
        try:
            if _mount_id(descriptor) != self._mount:
                raise self.mounted(name)
            with suppress(PermissionError):
                Path(f"/proc/self/fd/{descriptor}").chmod(0o700)  # fchmod(2) takes no O_PATH
        finally:
            os.close(descriptor)

    def release(self, name: str) -> bool:
        """Clear the flags that forbid removal, of an entry and of the open directory; return whether there were any.
        Raises OSError."""
        cleared = release(self.descriptor)
        looked = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.descriptor)
        try:
            kind = os.fstat(looked).st_mode
            if (stat.S_ISREG(kind) or stat.S_ISDIR(kind)) and _mount_id(looked) == self._mount:
                opened = os.open(f"/proc/self/fd/{looked}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    cleared |= release(opened)
                finally:
                    os.close(opened)
        finally:
            os.close(looked)
        return cleared

    def mounted(self, name: str) -> MountedError:
        return MountedError(
            f"something is mounted at {self.path(name)}; it is not removed", f"run umount {self.path(name)}"
        )


def open_directory(name: str | os.PathLike[str], above: int | None = None) -> int:
    """Return a descriptor of a directory. Raises OSError, also if its last component is a symlink."""
    return os.open(name, _DIRECTORY, dir_fd=above)


def _identity(descriptor: int) -> _Identity:
    info = os.fstat(descriptor)
    return info.st_dev, info.st_ino


def _mount_id(descriptor: int) -> int:
    """Return the mount through which a descriptor was opened (proc(5)). Device numbers are not enough: a bind mount of
    the same filesystem has the same one, and a btrfs subvolume has another one on the same mount."""
    info = os.open(f"/proc/self/fdinfo/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(info, 256).partition(b"mnt_id:")[2].split(None, 1)[0])
    finally:
        os.close(info)
