"""A walk through a tree by descriptors of its directories: safe against symlinks, renames and any depth."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kit.core.errors import RunError
from kit.host.safe_fs.attributes import release

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
