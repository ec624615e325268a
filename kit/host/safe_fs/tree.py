"""The one door to single files and directories in a tree that somebody else has made: a workload, an image, sources. No
symlink on the way is followed, and nothing is replaced."""

from __future__ import annotations

import os
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
