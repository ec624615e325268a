"""Removes directories with all their content; no other module does."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from kit.core.errors import RunError
from kit.core.trusted import open_real
from kit.host.safe_fs.dir_walker import DirWalker


def remove(path: Path, real: bool = False) -> None:
    """Remove a directory, file or symlink with all its content; ignore a missing one. Symlinks are not followed below
    ``path.parent``; with ``real``, nowhere on the path. Raises RunError, also if something is mounted at or below the
    path: mounts are never touched."""
    if path.name in ("", ".."):
        raise ValueError(f"{path} is not an entry of a directory")
    try:
        above = path.parent
        parent = open_real(above) if real else os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise RunError(
            f"{path} is below a symlink, or not a directory; it is not removed", f"check it with ls -ld {path}"
        ) from None
    try:
        with DirWalker(parent, str(path.parent)) as cursor:
            remove_at(cursor, path.name)
    finally:
        os.close(parent)


def remove_at(cursor: DirWalker, name: str) -> None:
    """Remove an entry of the cursor's open directory, as ``remove`` does."""
    if not _unlink(cursor, name):
        return
    _enter(cursor, name)
    pending = [_clear(cursor)]
    while pending:
        if pending[-1]:
            _enter(cursor, pending[-1].pop())
            pending.append(_clear(cursor))
        else:
            pending.pop()
            _rmdir(cursor, cursor.leave())


def _enter(cursor: DirWalker, name: str) -> None:
    try:
        if os.geteuid():
            cursor.open_up(name)
        cursor.enter(name)
    except OSError as error:
        raise _failed(cursor, name, error) from None


def _clear(cursor: DirWalker) -> list[str]:
    """Remove everything but directories from the open directory; return these."""
    with os.scandir(cursor.descriptor) as entries:
        listing = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    return [name for name, directory in listing if directory or _unlink(cursor, name)]


def _unlink(cursor: DirWalker, name: str) -> bool:
    """Return whether the entry is a directory and still exists."""
    try:
        _retried(os.unlink, cursor, name)
    except FileNotFoundError:
        return False
    except IsADirectoryError:
        return True
    except OSError as error:
        raise _failed(cursor, name, error) from None
    return False


def _rmdir(cursor: DirWalker, name: str) -> None:
    try:
        _retried(os.rmdir, cursor, name)
    except OSError as error:
        raise _failed(cursor, name, error) from None


def _retried(act: Callable[..., None], cursor: DirWalker, name: str) -> None:
    """Remove an entry; if flags (chattr +i, +a) forbid it, clear them and retry."""
    try:
        act(name, dir_fd=cursor.descriptor)
    except PermissionError:
        if not cursor.release(name):
            raise
        act(name, dir_fd=cursor.descriptor)


def _failed(cursor: DirWalker, name: str, error: OSError) -> RunError:
    if error.errno == errno.EBUSY:
        return cursor.mounted(name)
    return RunError(
        f"{cursor.path(name)} can't be removed: {error.strerror}", "check it with lsattr and mount, then run kit clean"
    )
