"""Copies plain files out of a directory to which others could write."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kit.host.safe_fs.dir_walker import DirWalker, open_directory

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
