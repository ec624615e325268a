"""Lists a tree, with what shows whether an entry has changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from kit.host.safe_fs.dir_walker import DirWalker, open_directory

#: Mode, owner, group, size and change time; the size of a directory is 0.
Mark = tuple[int, int, int, int, int]


def marks(directory: int) -> Iterator[tuple[str, Mark]]:
    """Return every name below an open directory, itself as '', with its change marks: no program can set back the
    change time."""
    # Opened again: on btrfs a descriptor lists the entries of its opening time.
    top = open_directory(".", directory)
    try:
        with DirWalker(top, ".") as cursor:
            yield from _walk(cursor)
    finally:
        os.close(top)


def _walk(cursor: DirWalker) -> Iterator[tuple[str, Mark]]:
    yield "", _mark(os.fstat(cursor.descriptor))
    pending = [_names(cursor)]
    prefixes = [""]
    while pending:
        for name, mark in pending[-1]:
            yield prefixes[-1] + name, mark
            if stat.S_ISDIR(mark[0]):
                cursor.enter(name, only_look=True)
                pending.append(_names(cursor))  # in one call: only the cursor stays open
                prefixes.append(f"{prefixes[-1]}{name}/")
                break
        else:
            pending.pop()
            prefixes.pop()
            if pending:
                cursor.leave()


def _names(cursor: DirWalker) -> Iterator[tuple[str, Mark]]:
    with os.scandir(cursor.descriptor) as entries:
        return iter([(entry.name, _mark(entry.stat(follow_symlinks=False))) for entry in entries])


def _mark(info: os.stat_result) -> Mark:
    size = 0 if stat.S_ISDIR(info.st_mode) else info.st_size
    return info.st_mode, info.st_uid, info.st_gid, size, info.st_ctime_ns
