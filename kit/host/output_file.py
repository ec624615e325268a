"""Files that the user asks for: reports, exports, images. Others may have put something in their place."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kit.core.errors import UsageError
from kit.core.private import users_umask
from kit.core.trusted import open_chosen
from kit.host.durable import replacing


@contextmanager
def new_output(path: Path) -> Iterator[IO[bytes]]:
    """Yield a new file that takes its name at the end of the block, whole: nothing is written through a link, through
    another user's link to its directory, or into a file with another name. Pipes, terminals and /dev/stdout are written
    to as they are. Raises OSError."""
    with _directory(path) as directory:
        stream = _open_stream(path, directory)
        if stream is not None:
            with open(stream, "wb") as file:
                yield file
            return
        with replacing(path, _mode(path, directory), directory) as file:
            yield file


def write_output(path: Path, content: str | bytes) -> None:
    """Write a file as ``new_output`` does. Raises OSError."""
    with new_output(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def check_output(path: Path) -> None:
    """Check before hours of measuring that a file can be written as ``write_output`` will. Raises UsageError."""
    reason = ""
    try:
        os.close(open_chosen(path.absolute().parent))
    except OSError as error:
        reason = f": {error.strerror}"
    if reason or not os.access(path.absolute().parent, os.W_OK) or path.is_dir():
        raise UsageError(f"{path} can't be written{reason}", "name a file in a directory that you may write to")


def append_output(path: Path, text: str) -> None:
    """Add to a file of the user's. Raises OSError, also for a link."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
    with _directory(path) as directory:
        descriptor = os.open(path.name, flags, 0o666 & ~users_umask(), dir_fd=directory)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)


def make_output_directory(path: Path) -> None:
    """Make a directory for such files, if it is missing. Raises OSError, also if a link is in its place."""
    mode, name = 0o777 & ~users_umask(), path.name or "."
    with _directory(path, make=True) as above:
        try:
            os.mkdir(name, mode, dir_fd=above)
        except FileExistsError:
            kind = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(kind):
                link = "a link; name the directory that it leads to"
                text = link if stat.S_ISLNK(kind) else os.strerror(errno.ENOTDIR)
                raise NotADirectoryError(errno.ENOTDIR, text, str(path)) from None
        else:
            directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            try:
                os.fchmod(directory, mode)
            finally:
                os.close(directory)


def check_output_directory(path: Path) -> None:
    """Check that ``make_output_directory`` could make it and files can be written there. Raises UsageError."""
    whole = path.absolute()
    above = next(place for place in (whole, *whole.parents) if os.path.lexists(place))
    if (above == whole and whole.is_symlink()) or not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: {above} is not a directory that you may write to", "name another: --output DIR")


@contextmanager
def _directory(path: Path, make: bool = False) -> Iterator[int]:
    """Yield a descriptor of the directory of a path."""
    directory = open_chosen(path.parent, make)
    try:
        yield directory
    finally:
        os.close(directory)


def _mode(path: Path, directory: int) -> int:
    """Return the mode of a new file: that of the user's old one, or what the user's umask gives."""
    try:
        info = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        info = None
    ours = info and stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid()
    return info.st_mode & 0o777 if info and ours else 0o666 & ~users_umask()


def _open_stream(path: Path, directory: int) -> int | None:
    """Return a descriptor of what must not be replaced; None for a file. Raises OSError for a block device, and for a
    pipe of another user's, who would read what is written."""
    above = Path(f"/proc/self/fd/{directory}").readlink()
    by_kernel = above == Path("/dev") or above.is_relative_to("/proc")  # /dev/fd/3 of >(…) is a link into /proc
    try:
        mode = os.stat(path.name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if not by_kernel and (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
        return None
    # Exchanged for a file meanwhile, it must keep what it holds.
    kind = os.O_TRUNC if by_kernel else os.O_NOFOLLOW
    descriptor = os.open(path.name, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC | kind, dir_fd=directory)
    info = os.fstat(descriptor)
    foreign = stat.S_ISFIFO(info.st_mode) and info.st_uid not in (0, os.geteuid()) and not by_kernel
    exchanged = stat.S_ISREG(info.st_mode) and not by_kernel
    if stat.S_ISBLK(info.st_mode) or foreign or exchanged:
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "neither a file nor a pipe of yours", str(path))
    return descriptor
