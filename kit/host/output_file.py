"""Files that the user asks for: reports, exports, images. Others may have put something in their place."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kit.core.private import make_directory, users_umask
from kit.host.durable import replacing


@contextmanager
def new_output(path: Path, in_real: bool = False) -> Iterator[IO[bytes]]:
    """Yield a new file that takes its name at the end of the block, whole: nothing is written through a link or into a
    file with another name. Pipes, terminals and /dev/stdout are written to as they are. ``in_real``: refuse a link in
    the place of its directory, too. Raises OSError."""
    stream = _open_stream(path)
    if stream is not None:
        with open(stream, "wb") as file:
            yield file
        return
    with replacing(path, _mode(path), in_real) as file:
        yield file


def write_output(path: Path, content: str | bytes, in_real: bool = False) -> None:
    """Write a file as ``new_output`` does. Raises OSError."""
    with new_output(path, in_real) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def append_output(path: Path, text: str) -> None:
    """Add to a file of the user's. Raises OSError, also for a link."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
    with open(os.open(path, flags, 0o666 & ~users_umask()), "w", encoding="utf-8") as file:
        file.write(text)


def make_output_directory(path: Path) -> None:
    """Make a directory for such files, if it is missing. Raises OSError, also if a link is in its place."""
    try:
        make_directory(path, 0o777 & ~users_umask())
    except FileExistsError:
        link = "a link; name the directory that it leads to"
        raise NotADirectoryError(
            errno.ENOTDIR, link if path.is_symlink() else os.strerror(errno.ENOTDIR), str(path)
        ) from None


def _mode(path: Path) -> int:
    """Return the mode of a new file: that of the user's old one, or what the user's umask gives."""
    try:
        info = path.lstat()
    except FileNotFoundError:
        info = None
    ours = info and stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid()
    return info.st_mode & 0o777 if info and ours else 0o666 & ~users_umask()


def _open_stream(path: Path) -> int | None:
    """Return a descriptor of what must not be replaced; None for a file. Raises OSError for a block device, and for a
    pipe of another user's, who would read what is written."""
    above = path.parent.resolve()
    by_kernel = above == Path("/dev") or above.is_relative_to("/proc")  # /dev/fd/3 of >(…) is a link into /proc
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if not by_kernel and (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
        return None
    follow = 0 if by_kernel else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOCTTY | os.O_CLOEXEC | follow)
    info = os.fstat(descriptor)
    foreign = stat.S_ISFIFO(info.st_mode) and info.st_uid not in (0, os.geteuid()) and not by_kernel
    exchanged = stat.S_ISREG(info.st_mode) and not by_kernel
    if stat.S_ISBLK(info.st_mode) or foreign or exchanged:
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "neither a file nor a pipe of yours", str(path))
    return descriptor
