"""The kernel's caches: dropped, filled in one way with what lies below a directory, and freed of that alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

DROP_CACHES = Path("/proc/sys/vm/drop_caches")


def drop_caches() -> None:
    """Before the first run too: files just unpacked lie in the page cache as they were written, in other folio sizes
    than files read back, and each arm's were written by another program. Read anew, all in one way, they are alike."""
    _drop("3")


def drop_names() -> None:
    """Inodes and names of files of which no page is held."""
    _drop("2")


def _drop(what: str) -> None:
    if os.access(DROP_CACHES, os.W_OK):
        DROP_CACHES.write_text(what)


def read_below(top: Path) -> None:
    """Each file from start to end."""
    for file in _files(top):
        with suppress(OSError):
            while file.read(1 << 20):
                pass


def forget_below(top: Path) -> None:
    """What of it is dirty, or mapped by somebody, stays (posix_fadvise(2), POSIX_FADV_DONTNEED)."""
    for file in _files(top):
        with suppress(OSError):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _files(top: Path) -> Iterator[BinaryIO]:
    """Not sparse files: a driver's own loop device is one, of a hundred gigabytes. Nor twice the same file of one
    driver: btrfs shows an image of a hundred layers as a hundred whole trees. One that is gone, or not to be read, is
    not in the way either."""
    seen: set[tuple[str, int, int]] = set()
    for directory, _, names in os.walk(top):
        for name in names:
            with suppress(OSError):
                path = os.path.join(directory, name)
                info = os.lstat(path)
                same = name, info.st_size, info.st_mtime_ns
                if stat.S_ISREG(info.st_mode) and info.st_blocks * 512 >= info.st_size // 2 and same not in seen:
                    seen.add(same)
                    with open(path, "rb", buffering=0) as file:
                        yield file
