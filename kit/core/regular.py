"""Regular files and their text. Other files are refused: opening a pipe would wait for a writer, and reading a device
may never end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

from kit.core.errors import UsageError
from kit.core.toml import LONGEST

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_regular(path: Path, flags: int = 0, directory: int | None = None) -> IO[bytes]:
    """Open a regular file for reading, without waiting. ``flags``: further flags of open(2), as O_NOFOLLOW.
    ``directory``: a descriptor of the one that has the file. Raises OSError, also for any other file."""
    descriptor = os.open(path if directory is None else path.name, _FLAGS | flags, dir_fd=directory)
    try:
        check_regular(descriptor, path)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def check_regular(descriptor: int, path: Path) -> None:
    """Raise OSError if the open file is not a regular file."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_text(path: Path, hint: str) -> str:
    """Return the text of a file that a user named, in UTF-8 and within bounds. ``hint`` says what to name instead.
    Raises UsageError."""
    try:
        with open_regular(path) as file:
            return decode_text(file, path, hint)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint) from None


def decode_text(file: IO[bytes], path: Path, hint: str) -> str:
    """Return the text of an open file, as ``read_text`` does. Raises UsageError, OSError."""
    data = file.read(4 * LONGEST + 1)  # a character has four bytes at most
    if len(data) > 4 * LONGEST:
        raise UsageError(f"{path}: has more than {LONGEST} characters", hint)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8", "save the file in UTF-8") from None
