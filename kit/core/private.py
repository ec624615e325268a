"""What is the user's alone: directories and files of the kit's that nobody else writes to, or looks into."""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

from kit.core.errors import MachineError


def make_private(directory: Path, mode: int = 0o700) -> None:
    """Make a directory in which nobody else can put anything; one that is there must be such a one, and gets ``mode``.
    Raises MachineError where it is a link, somebody else's, or where others may write."""
    try:
        with suppress(FileExistsError):
            directory.mkdir(mode, parents=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        what = "it is a link" if directory.is_symlink() else os.strerror(error.errno or 0)
        raise _unusable(directory, what) from None
    try:
        info = os.fstat(descriptor)
        if info.st_uid != os.geteuid():
            raise _unusable(directory, f"it belongs to {user_name(info.st_uid)}, not to {user_name(os.geteuid())}")
        if info.st_mode & 0o022:
            raise _unusable(directory, "others may write to it")
        if stat.S_IMODE(info.st_mode) != mode:
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def _unusable(directory: Path, reason: str) -> MachineError:
    hint = "look what is in it and remove it, or name directories of your own with KIT_HOME and XDG_RUNTIME_DIR"
    return MachineError(f"the kit can't use {directory}: {reason}", hint)


def close_directory(directory: Path) -> None:
    """A directory of data, of which others see nothing; one that an older kit made open is closed. Unlike
    ``make_private`` it takes what is there: a user may keep data behind a link, and nothing in it is obeyed."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _close(directory, 0o700)


def close_file(file: Path) -> None:
    """As ``close_directory``, for a file that may be there."""
    if file.exists():
        _close(file, 0o600)


def _close(path: Path, mode: int) -> None:
    if path.stat().st_uid == os.geteuid():
        path.chmod(path.stat().st_mode & mode)


def user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
