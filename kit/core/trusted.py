"""Directories and files that this user, often root, works in and obeys: no other user may replace or write one."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from kit.core.errors import UsageError
from kit.core.private import close_command, open_own, unusable, user_name, writable_by_others
from kit.core.regular import open_regular

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


class _ReplaceableError(Exception):
    """Another user may replace ``where``, which lies on a path. ``fix``: a command that prevents it, or ''."""

    def __init__(self, where: str, reason: str, fix: str = "") -> None:
        super().__init__(f"{where} {reason}")
        self.fix = fix


def open_trusted(path: Path) -> int:
    """Return a descriptor of a directory that no other user can replace. Make the missing directories.

    Every directory on the path belongs to root or to this user. Others may not write to it, or its sticky bit prevents
    renames. Symlinks on the path are followed if they belong to root or to this user. Raises UsageError, OSError."""
    with _Way() as way:
        try:
            _walk(way, path, make=True)
        except _ReplaceableError as error:
            use = "use a directory that is yours, all above it yours or root's"
            raise UsageError(
                f"{path}: {error}: it could be exchanged while {user_name(os.geteuid())} works in it",
                f"run {error.fix}, or {use}" if error.fix else use,
            ) from None
        return way.opened()


def sudo_caller() -> tuple[int, ...]:
    """Return the user behind sudo, whose words root obeys; () without sudo."""
    caller = os.environ.get("SUDO_UID", "")
    return (int(caller),) if caller.isdecimal() else ()


def open_chosen(path: Path, make: bool = False) -> int:
    """Return a descriptor of a directory that this user names and that may belong to anybody. Followed are links of
    root, of this user and of sudo's caller alone: another's would lead root where it does not mean to write. ``make``:
    make the missing directories. Raises OSError."""
    with _Way() as way:
        try:
            if not _walk(way, path, make, sudo_caller(), links_alone=True):
                path.stat()  # says whether it is missing or may not be looked into
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        except _ReplaceableError as error:
            raise PermissionError(errno.EPERM, f"the link {error}", str(path)) from None
        return way.opened()


def check_place(directory: Path) -> None:
    """Check that no other user has put, or can put, a directory in a place that the kit trusts. Changes nothing. Raises
    MachineError."""
    try:
        with _Way() as way:
            _walk(way, directory.parent)
        if os.path.lexists(directory):
            os.close(open_own(directory))
    except _ReplaceableError as error:
        raise unusable(directory, f"{error}, who could replace it", error.fix) from None
    except OSError as error:
        raise unusable(directory, f"{directory.parent}: {os.strerror(error.errno or 0)}") from None


def open_believed(path: Path, owners: Collection[int] = ()) -> IO[bytes]:
    """Open a file that this user obeys. It is no link, belongs to root, to this user or to one of ``owners``, and
    nobody else may write to it, to its directory, or exchange a directory above it. Raises OSError, UsageError: no fix
    asks to trust what another user has written."""
    believed = {0, os.geteuid(), *owners}
    try:
        with _Way() as way, ExitStack() as stack:
            if not _walk(way, path.parent, owners=believed):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            _check(way.path(), os.fstat(way.here), way.here, believed, strict=True)
            file = stack.enter_context(open_regular(path, os.O_NOFOLLOW, way.here))
            _check(str(path), os.fstat(file.fileno()), file.fileno(), believed, strict=True)
            stack.pop_all()
            return file
    except _ReplaceableError as error:
        fix = f"read {path}, then run {error.fix}" if error.fix else "remove it, or run kit in a directory of your own"
        raise UsageError(f"{path} is not obeyed: {error}", fix) from None


def _walk(way: _Way, path: Path, make: bool = False, owners: Collection[int] = (), links_alone: bool = False) -> bool:
    """Go to a directory, or up to the first that is missing or that this user may not look into; return whether it is
    there. ``make``: make the missing ones. ``links_alone``: directories may be anybody's. Raises _ReplaceableError,
    OSError."""
    trusted = {0, os.geteuid(), *owners}
    pending, links = [*reversed(path.absolute().parts[1:])], 0
    while True:
        if not links_alone:
            _check(way.path(), os.fstat(way.here), way.here, trusted)
        if not pending:
            return True
        name = pending.pop()
        try:
            info = os.stat(name, dir_fd=way.here, follow_symlinks=False)
        except (FileNotFoundError, PermissionError) as error:
            if not make:
                return False
            if isinstance(error, PermissionError):
                raise
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=way.here)
                os.chmod(name, 0o755, dir_fd=way.here)  # past the umask; who may write here is checked already
        else:
            if stat.S_ISLNK(info.st_mode):
                _check(way.path(name), info, way.here, trusted)
                links += 1
                pending += _target(way, name, links)
                continue
        way.enter(name)


def _target(way: _Way, name: str, links: int) -> list[str]:
    """Return the names to which a symlink leads, the first one last. Raises OSError after too many ``links``."""
    if links > _LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), way.path(name))
    target = Path(os.readlink(name, dir_fd=way.here))
    if target.is_absolute():
        way.start_again()
    return [*reversed(target.parts[1:] if target.is_absolute() else target.parts)]


def open_real(path: Path) -> int:
    """Return a descriptor of the directory at an absolute path. Raises OSError, also where a component is a symlink."""
    with _Way() as way:
        for name in path.parts[1:]:
            way.enter(name)
        return way.opened()


def _check(where: str, info: os.stat_result, descriptor: int, trusted: Collection[int], strict: bool = False) -> None:
    """Raises _ReplaceableError if another user may replace the file or its entries. ``descriptor``: of the file, of its
    directory if it is a link. ``strict``: others may not make new entries either."""
    if info.st_uid not in trusted and (strict or info.st_uid != _owner_of_root()):
        raise _ReplaceableError(where, f"belongs to {user_name(info.st_uid)}")
    sticky = stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX and not strict
    if stat.S_ISLNK(info.st_mode) or sticky:
        return
    if writable_by_others(f"/proc/self/fd/{descriptor}", info):
        what = "a directory" if stat.S_ISDIR(info.st_mode) else "a file"
        raise _ReplaceableError(where, f"is {what} to which others may write", close_command(where, info))


def _owner_of_root() -> int:
    """Return the owner of /, who can exchange everything. In a user namespace that does not have the machine's root,
    the kernel shows a number that nobody has (user_namespaces(7))."""
    return Path("/").stat().st_uid
