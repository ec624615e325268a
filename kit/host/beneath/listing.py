"""What is in a tree, and what tells whether it has changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from kit.host.beneath.cursor import Cursor, open_directory

#: Mode, owner, group, size and change time; the size is 0 of a directory.
Mark = tuple[int, int, int, int, int]


def marks(directory: int) -> Iterator[tuple[str, Mark]]:
    """Every name below an open directory, itself as '', and what tells a change: no program can set the change time
    back."""
    # Opened anew: on btrfs a descriptor lists what was there when it was opened.
    top = open_directory(".", directory)
    try:
        with Cursor(top, ".") as cursor:
            yield from _walk(cursor)
    finally:
        os.close(top)


def _walk(cursor: Cursor) -> Iterator[tuple[str, Mark]]:
    yield "", _mark(os.fstat(cursor.descriptor))
    pending = [_names(cursor)]
    prefixes = [""]
    while pending:
        for name, mark in pending[-1]:
            yield prefixes[-1] + name, mark
            if stat.S_ISDIR(mark[0]):
                cursor.enter(name, only_look=True)
                pending.append(_names(cursor))  # all at once: nothing is open but the cursor
                prefixes.append(f"{prefixes[-1]}{name}/")
                break
        else:
            pending.pop()
            prefixes.pop()
            if pending:
                cursor.leave()


def _names(cursor: Cursor) -> Iterator[tuple[str, Mark]]:
    with os.scandir(cursor.descriptor) as entries:
        return iter([(entry.name, _mark(entry.stat(follow_symlinks=False))) for entry in entries])


def _mark(info: os.stat_result) -> Mark:
    size = 0 if stat.S_ISDIR(info.st_mode) else info.st_size
    return info.st_mode, info.st_uid, info.st_gid, size, info.st_ctime_ns
