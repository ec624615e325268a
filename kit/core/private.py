"""Private directories and files of the kit, which no other user writes to or looks into."""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

from kit.core.errors import MachineError


def make_private(directory: Path, mode: int = 0o700) -> None:
    """Make a directory that only this user can write to. An existing directory must be private already, and keeps its
    mode: it may belong to other programs. Raises MachineError for a link, another owner, or if others may write."""
    made = False
    try:
        with suppress(FileExistsError):
            directory.mkdir(mode, parents=True)
            made = True
    except OSError as error:
        raise _unusable(directory, os.strerror(error.errno or 0)) from None
    descriptor = _open_own(directory)
    try:
        if made:  # whatever the umask has taken away
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def passable_mode() -> int:
    """Return the mode of root's directories on the way to an arm's tree: an ordinary user may pass, but list
    nothing."""
    return 0o711 if os.geteuid() == 0 else 0o700


def check_place(directory: Path) -> None:
    """Check that no other user has put, or can put, a directory in a place that the kit trusts. Changes nothing. Raises
    MachineError."""
    if os.path.lexists(directory):
        os.close(_open_own(directory))
    holder = next(path for path in directory.parents if os.path.exists(path))  # noqa: PTH110 -- Path.exists raises without a right to look
    info = holder.stat()
    if info.st_uid not in (0, os.geteuid()):
        raise _unusable(directory, f"{holder} belongs to {user_name(info.st_uid)}, who could replace it")
    if info.st_mode & 0o002 and not info.st_mode & stat.S_ISVTX:
        raise _unusable(directory, f"everybody may write to {holder}, and could replace it")


def _open_own(directory: Path) -> int:
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        what = "it is a link" if directory.is_symlink() else os.strerror(error.errno or 0)
        raise _unusable(directory, what) from None
    info = os.fstat(descriptor)
    reason = ""
    if info.st_uid != os.geteuid():
        reason = f"it belongs to {user_name(info.st_uid)}, not to {user_name(os.geteuid())}"
    elif info.st_mode & 0o022:
        reason = "others may write to it"
    if reason:
        os.close(descriptor)
        raise _unusable(directory, reason)
    return descriptor


def _unusable(directory: Path, reason: str) -> MachineError:
    hint = "check its contents and remove it, or name your own directories with KIT_HOME and XDG_RUNTIME_DIR"
    return MachineError(f"the kit can't use {directory}: {reason}", hint)


def user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
