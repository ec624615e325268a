"""Copies of plain files out of a directory that somebody else could write."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kit.host.beneath.cursor import Cursor, open_directory

_CHUNK = 1 << 20


@contextmanager
def plain_files(top: Path, names: Sequence[str]) -> Iterator[Iterator[tuple[str, IO[bytes]]]]:
    """The plain files, by name, of the directory to which ``names`` lead from ``top``; symlinks, devices and what else
    is there are left out. Raises OSError where there is no such directory, or a symlink on the way; MountedError."""
    descriptor = open_directory(top)
    try:
        with Cursor(descriptor, str(top)) as cursor:
            cursor.go(names)
            yield _plain(cursor)
    finally:
        os.close(descriptor)


def _plain(cursor: Cursor) -> Iterator[tuple[str, IO[bytes]]]:
    for name in sorted(os.listdir(cursor.descriptor)):
        if stat.S_ISREG(os.stat(name, dir_fd=cursor.descriptor, follow_symlinks=False).st_mode):
            with open(
                os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=cursor.descriptor), "rb"
            ) as file:
                yield name, file


def copy_file(file: IO[bytes], target: Path, most: int) -> int:
    """Copy ``most`` bytes at most, whatever its length; zeros become holes. Returns how many took room."""
    length = written = 0
    with target.open("wb") as copy:
        while length < most and (data := file.read(min(_CHUNK, most - length))):
            if data.strip(b"\0"):
                copy.seek(length)
                written += copy.write(data)
            length += len(data)
        copy.truncate(length)
    return written
