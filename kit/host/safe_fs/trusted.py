"""Directories in which root works by path: no other user may replace one of them."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from kit.core.errors import UsageError
from kit.core.private import close_command, user_name, writable_by_others

_LOOK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Maximum number of symlinks on one path, as the kernel counts them (path_resolution(7)).
_LINKS = 40


class _Way:
    """A walk from / by descriptors, which follows no symlink by itself. Use it as a context manager."""

    def __init__(self) -> None:
        self.here = os.open("/", _LOOK)
        self.names: list[str] = []

    def __enter__(self) -> _Way:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self.here)

    def enter(self, name: str) -> None:
        """Go into a directory. Raises OSError, also for a symlink."""
        self._stand(os.open(name, _LOOK, dir_fd=self.here))
        self.names = self.names[:-1] if name == ".." else [*self.names, name]

    def start_again(self) -> None:
        self._stand(os.open("/", _LOOK))
        self.names = []

    def path(self, *more: str) -> str:
        return f"/{'/'.join([*self.names, *more])}"

    def opened(self) -> int:
        """Return a descriptor of its directory that can be read."""
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.here)

    def _stand(self, descriptor: int) -> None:
        os.close(self.here)
        self.here = descriptor


def open_trusted(path: Path) -> int:
    """Return a descriptor of a directory that no other user can replace. Make the missing directories.

    Every directory on the path belongs to root or to this user. Others may not write to it, or its sticky bit prevents
    renames. Symlinks on the path are followed if they belong to root or to this user. Raises UsageError, OSError."""
    pending, links = [*reversed(path.absolute().parts[1:])], 0
    with _Way() as way:
        while True:
            _check(path, way.path(), os.fstat(way.here), way.here)
            if not pending:
                return way.opened()
            name = pending.pop()
            try:
                info = os.stat(name, dir_fd=way.here, follow_symlinks=False)
            except FileNotFoundError:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=way.here)
                    os.chmod(name, 0o755, dir_fd=way.here)  # past the umask; who may write here is checked already
            else:
                if stat.S_ISLNK(info.st_mode):
                    _check(path, way.path(name), info, way.here)
                    links += 1
                    if links > _LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                    target = Path(os.readlink(name, dir_fd=way.here))
                    if target.is_absolute():
                        way.start_again()
                    pending += reversed(target.parts[1:] if target.is_absolute() else target.parts)
                    continue
            way.enter(name)


def open_real(path: Path) -> int:
    """Return a descriptor of the directory at an absolute path. Raises OSError, also where a component is a symlink."""
    with _Way() as way:
        for name in path.parts[1:]:
            way.enter(name)
        return way.opened()


def _check(given: Path, where: str, info: os.stat_result, descriptor: int) -> None:
    """Raises UsageError if another user may replace the directory or its entries. ``descriptor``: of the directory."""
    others = (
        stat.S_ISDIR(info.st_mode)
        and not info.st_mode & stat.S_ISVTX
        and writable_by_others(f"/proc/self/fd/{descriptor}", info)
    )
    if info.st_uid in (0, os.geteuid()) and not others:
        return
    whose = "is a directory to which others may write" if others else f"belongs to {user_name(info.st_uid)}"
    use = "use a directory that is yours, all above it yours or root's"
    raise UsageError(
        f"{given}: {where} {whose}: it could be exchanged while {user_name(os.geteuid())} works in it",
        f"run {close_command(where, info)}, or {use}" if others else use,
    )
