"""The one door to single files and directories in a tree that somebody else has made: a workload, an image, sources. No
symlink on the way is followed, and nothing is replaced. Plain files are also copied out of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from kit.core.errors import RunError
from kit.core.regular import open_regular
from kit.host.command import run
from kit.host.safe_fs.dir_walker import DirWalker, open_directory

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_new(at: DirWalker, name: str, data: bytes = b"", mode: int = 0o644) -> None:
    """Create a file under an unused name, with this mode whatever the umask is. Raises OSError."""
    with open(os.open(name, NEW, mode, dir_fd=at.descriptor), "wb") as file:
        file.write(data)
        os.fchmod(file.fileno(), mode)


def new_file(top: Path, name: str, data: bytes, mode: int = 0o644) -> None:
    """Create a file below a directory. Raises RunError if the name is in use, or a symlink leads to it."""
    with _explained(top, name), _walker(top) as cursor:
        *above, last = name.split("/")
        cursor.go(above)
        write_new(cursor, last, data, mode)


@contextmanager
def open_file(top: Path, name: str) -> Iterator[IO[bytes]]:
    """Yield a regular file below a directory, for reading. Raises RunError for any other, or if a symlink leads to
    it."""
    with _walker(top) as cursor:
        *above, last = name.split("/")
        with _explained(top, name):
            cursor.go(above)
            file = open_regular(Path(last), os.O_NOFOLLOW, cursor.descriptor)
        with file:
            yield file


def is_directory(top: Path, name: str) -> bool:
    """Return whether a name below a directory is a directory, and no symlink leads to it."""
    with _walker(top) as cursor, suppress(OSError):
        cursor.go(name.split("/"))
        return True
    return False


def copy_directory(top: Path, name: str, target: Path, place: str = "") -> None:
    """Copy the content of a directory below ``top`` over that of ``place`` below ``target``. What is missing of
    ``place`` is made. Attributes are kept, and symlinks stay symlinks. Raises RunError if one leads to either
    directory, or a directory would replace another kind of file."""
    with _walker(top) as source, _walker(target) as goal:
        with _explained(top, name):
            source.go(name.split("/"))
        with _explained(target, place):
            _make(goal, [part for part in place.split("/") if part])
        descriptors = source.descriptor, goal.descriptor
        words = [f"/proc/self/fd/{descriptors[0]}/.", f"/proc/self/fd/{descriptors[1]}"]
        run(["cp", "-a", "--remove-destination", "--", *words], what=f"copy of {top / name}", pass_fds=descriptors)


def _make(cursor: DirWalker, names: Sequence[str]) -> None:
    for name in names:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=cursor.descriptor)
        cursor.enter(name)


@contextmanager
def _walker(top: Path) -> Iterator[DirWalker]:
    with _explained(top, ""):
        descriptor = open_directory(top)
    try:
        with DirWalker(descriptor, str(top)) as cursor:
            yield cursor
    finally:
        os.close(descriptor)


@contextmanager
def _explained(top: Path, name: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise RunError(f"{top / name} exists already, and the kit writes a file there", "move it away") from None
    except OSError as error:
        fix = "use an image, or sources, without a symlink or a special file there"
        raise RunError(f"{top / name} can't be used: {error.strerror}", fix) from None


_CHUNK = 1 << 20


@contextmanager
def plain_files(top: Path, names: Sequence[str]) -> Iterator[Iterator[tuple[str, IO[bytes]]]]:
    """Return the plain files, by name, of the directory to which ``names`` lead from ``top``. Symlinks, devices and
    other special files are left out. Raises OSError if the directory is missing or a symlink is on the path;
    MountedError."""
    descriptor = open_directory(top)
    try:
        with DirWalker(descriptor, str(top)) as cursor:
            cursor.go(names)
            yield _plain(cursor)
    finally:
        os.close(descriptor)


def _plain(cursor: DirWalker) -> Iterator[tuple[str, IO[bytes]]]:
    for name in sorted(os.listdir(cursor.descriptor)):
        if stat.S_ISREG(os.stat(name, dir_fd=cursor.descriptor, follow_symlinks=False).st_mode):
            with open(
                os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=cursor.descriptor), "rb"
            ) as file:
                yield name, file


def copy_file(file: IO[bytes], target: Path, most: int) -> int:
    """Copy at most ``most`` bytes of a file; zeros become holes. Returns the number of bytes that occupy space."""
    length = written = 0
    with target.open("wb") as copy:
        while length < most and (data := file.read(min(_CHUNK, most - length))):
            if data.strip(b"\0"):
                copy.seek(length)
                written += copy.write(data)
            length += len(data)
        copy.truncate(length)
    return written
