"""The kernel's caches: dropped, filled with the content of a directory, or freed of that content."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

DROP_CACHES = Path("/proc/sys/vm/drop_caches")


def drop_caches() -> None:
    """Drop all caches; the files are read again afterwards. Newly unpacked files are in the page cache
    as they were written: in other folio sizes than after a read, and by a different program for each arm. After the
    same read they are in the same state."""
    _drop("3")


def drop_names() -> None:
    """Drop inodes and names of files without cached pages."""
    _drop("2")


def _drop(what: str) -> None:
    if os.access(DROP_CACHES, os.W_OK):
        DROP_CACHES.write_text(what)


def read_below(top: Path) -> None:
    """Read each file from start to end."""
    for file in _files(top):
        with suppress(OSError):
            while file.read(1 << 20):
                pass


def forget_below(top: Path) -> None:
    """Drop the cached pages of files. Dirty and mapped pages stay (posix_fadvise(2), POSIX_FADV_DONTNEED)."""
    for file in _files(top):
        with suppress(OSError):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _files(top: Path) -> Iterator[BinaryIO]:
    """Yield the files to read. Sparse files are left out: a driver's own loop device has a hundred gigabytes. A file of
    a snapshot is read once: btrfs shows an image of a hundred layers as a hundred trees, with the same inode numbers.
    Missing and unreadable files are ignored."""
    visited: set[tuple[int, str, int, int]] = set()
    for directory, _, names in os.walk(top):
        for name in names:
            with suppress(OSError):
                path = os.path.join(directory, name)
                info = os.lstat(path)
                same = info.st_ino, name, info.st_size, info.st_mtime_ns
                if stat.S_ISREG(info.st_mode) and same not in visited:
                    visited.add(same)
                    with open(path, "rb", buffering=0) as file:
                        if not _is_sparse(file, info):
                            yield file


def _is_sparse(file: BinaryIO, info: os.stat_result) -> bool:
    """Return whether at least half of a file is holes. A compressed file, as of EROFS or btrfs, has few blocks, too,
    but no hole."""
    if info.st_blocks * 512 >= info.st_size // 2:
        return False
    holes = os.lseek(file.fileno(), 0, os.SEEK_HOLE) < info.st_size
    file.seek(0)
    return holes
