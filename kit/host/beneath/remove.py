"""Removal of a directory with all that it holds: the one place that does it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from kit.core.errors import RunError
from kit.host.beneath.cursor import Cursor
from kit.host.beneath.trusted import open_real


def remove(path: Path, real: bool = False) -> None:
    """Remove a directory, file or symlink with all that it holds; what is not there is removed already. Symlinks are
    not followed below ``path.parent``; ``real``: nowhere on the way. Raises RunError, also where something is mounted
    at it or below: what is mounted is never touched."""
    if path.name in ("", ".."):
        raise ValueError(f"{path} is no entry of a directory")
    try:
        above = path.parent
        parent = open_real(above) if real else os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise RunError(f"{path} is below a symlink, or no directory; it is left alone", f"ls -ld {path}") from None
    try:
        with Cursor(parent, str(path.parent)) as cursor:
            remove_at(cursor, path.name)
    finally:
        os.close(parent)


def remove_at(cursor: Cursor, name: str) -> None:
    """As remove, for an entry of the directory that a cursor stands in."""
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


def _enter(cursor: Cursor, name: str) -> None:
    try:
        if os.geteuid():
            cursor.open_up(name)
        cursor.enter(name)
    except OSError as error:
        raise _failed(cursor, name, error) from None


def _clear(cursor: Cursor) -> list[str]:
    """Remove all but the directories of the one that it stands in; returns these."""
    with os.scandir(cursor.descriptor) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    return [name for name, directory in found if directory or _unlink(cursor, name)]


def _unlink(cursor: Cursor, name: str) -> bool:
    """Whether it is a directory, and there still."""
    try:
        _retried(os.unlink, cursor, name)
    except FileNotFoundError:
        return False
    except IsADirectoryError:
        return True
    except OSError as error:
        raise _failed(cursor, name, error) from None
    return False


def _rmdir(cursor: Cursor, name: str) -> None:
    try:
        _retried(os.rmdir, cursor, name)
    except OSError as error:
        raise _failed(cursor, name, error) from None


def _retried(act: Callable[..., None], cursor: Cursor, name: str) -> None:
    """Where flags forbid it (chattr +i, +a), once more without them."""
    try:
        act(name, dir_fd=cursor.descriptor)
    except PermissionError:
        if not cursor.release(name):
            raise
        act(name, dir_fd=cursor.descriptor)


def _failed(cursor: Cursor, name: str, error: OSError) -> RunError:
    if error.errno == errno.EBUSY:
        return cursor.mounted(name)
    return RunError(f"{cursor.path(name)} can't be removed: {error.strerror}", "see lsattr and mount, then kit clean")
