"""A walk through a tree by descriptors of its directories: no symlink, no rename and no depth leads it astray."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kit.core.errors import RunError
from kit.host.beneath.attributes import release

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Descriptors held of the directories above. From further below it goes up by "..", and looks whether it is back.
_HELD = 32

_Identity = tuple[int, int]


class MountedError(RunError):
    """Something is mounted where the walk was to go on."""


class Cursor:
    """Stands in one directory. ``names`` lead there from the top; close it, or use it as a context manager."""

    def __init__(self, top: int, where: str) -> None:
        """``top``: a descriptor, of which it takes a copy. ``where``: its path, for errors."""
        self.descriptor = os.dup(top)
        self.names: list[str] = []
        self._where = where
        self._mount = _mount_id(self.descriptor)
        self._above: list[int | _Identity] = []

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for held in (self.descriptor, *self._above):
            if isinstance(held, int):
                os.close(held)
        self._above.clear()

    def path(self, name: str = "") -> str:
        """Of what it stands in, or of a name in it, as it can be printed."""
        whole = "/".join([self._where, *self.names, *([name] if name else [])])
        return os.fsencode(whole).decode(errors="backslashreplace")

    def enter(self, name: str, only_look: bool = False) -> None:
        """Go down into a directory. Raises OSError (also for a symlink), and MountedError unless it is only to be
        looked at."""
        descriptor = open_directory(name, self.descriptor)
        if not only_look and _mount_id(descriptor) != self._mount:
            os.close(descriptor)
            raise self.mounted(name)
        self._above.append(self.descriptor)
        self.descriptor = descriptor
        self.names.append(name)
        far = len(self._above) - _HELD - 1
        if far >= 0 and isinstance(held := self._above[far], int):
            self._above[far] = _identity(held)
            os.close(held)

    def leave(self) -> str:
        """Go up again; returns the name of what it stood in. Raises RunError where that has been moved meanwhile."""
        back = self._above[-1]
        if not isinstance(back, int):
            above = open_directory("..", self.descriptor)
            if _identity(above) != back:
                os.close(above)
                raise RunError(f"{self.path()} was moved while it was walked", "end what still works there")
            back = above
        self._above.pop()
        os.close(self.descriptor)
        self.descriptor = back
        return self.names.pop()

    def go(self, names: Sequence[str]) -> None:
        """Go to the directory that these names lead to from the top. Raises as enter and leave."""
        while self.names != [*names[: len(self.names)]]:
            self.leave()
        for name in names[len(self.names) :]:
            self.enter(name)

    def open_up(self, name: str) -> None:
        """Permit ourselves what a directory of ours forbids. Raises OSError, MountedError."""
        descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.descriptor)
        try:
            if _mount_id(descriptor) != self._mount:
                raise self.mounted(name)
            with suppress(PermissionError):
                Path(f"/proc/self/fd/{descriptor}").chmod(0o700)  # fchmod(2) takes no O_PATH
        finally:
            os.close(descriptor)

    def release(self, name: str) -> bool:
        """Take the flags that forbid to remove an entry from it and from the directory that the cursor stands in;
        return whether there were any. Raises OSError."""
        found = release(self.descriptor)
        looked = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.descriptor)
        try:
            kind = os.fstat(looked).st_mode
            if (stat.S_ISREG(kind) or stat.S_ISDIR(kind)) and _mount_id(looked) == self._mount:
                opened = os.open(f"/proc/self/fd/{looked}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    found |= release(opened)
                finally:
                    os.close(opened)
        finally:
            os.close(looked)
        return found

    def mounted(self, name: str) -> MountedError:
        return MountedError(f"something is mounted at {self.path(name)}; it is left alone", f"umount {self.path(name)}")


def open_directory(name: str | os.PathLike[str], above: int | None = None) -> int:
    """A descriptor of a directory. Raises OSError, also where its last component is a symlink."""
    return os.open(name, _DIRECTORY, dir_fd=above)


def _identity(descriptor: int) -> _Identity:
    info = os.fstat(descriptor)
    return info.st_dev, info.st_ino


def _mount_id(descriptor: int) -> int:
    """Which mount a descriptor was opened through (proc(5)): a bind mount of the same filesystem has the same device
    number, and a subvolume of btrfs has another one on the same mount."""
    info = os.open(f"/proc/self/fdinfo/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(info, 256).partition(b"mnt_id:")[2].split(None, 1)[0])
    finally:
        os.close(info)
