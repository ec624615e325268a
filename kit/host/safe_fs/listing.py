"""Lists a tree, with what shows whether an entry has changed."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from kit.host.safe_fs.dir_walker import DirWalker, open_directory

#: Mode, owner, group, size and change time; the size of a directory is 0.
Mark = tuple[int, int, int, int, int]
#: Nanoseconds for which a filesystem may give one change time to several changes: a tick of the kernel. Where there is
#: nothing below the second (ext4 with inodes of 128 bytes, vfat), two seconds.
_TICK, _WHOLE_SECONDS = 20 * 10**6, 2 * 10**9


def marks(directory: int) -> Iterator[tuple[str, Mark]]:
    """Return every name below an open directory, itself as '', with its change marks: no program can set back the
    change time."""
    return ((name, _mark(info)) for name, info in _entries(directory))


def _entries(directory: int) -> Iterator[tuple[str, os.stat_result]]:
    # Opened again: on btrfs a descriptor lists the entries of its opening time.
    top = open_directory(".", directory)
    try:
        with DirWalker(top, ".") as cursor:
            yield from _walk(cursor)
    finally:
        os.close(top)


def _walk(cursor: DirWalker) -> Iterator[tuple[str, os.stat_result]]:
    yield "", os.fstat(cursor.descriptor)
    pending = [_names(cursor)]
    prefixes = [""]
    while pending:
        for name, info in pending[-1]:
            yield prefixes[-1] + name, info
            if stat.S_ISDIR(info.st_mode):
                cursor.enter(name, only_look=True)
                pending.append(_names(cursor))  # in one call: only the cursor stays open
                prefixes.append(f"{prefixes[-1]}{name}/")
                break
        else:
            pending.pop()
            prefixes.pop()
            if pending:
                cursor.leave()


def _names(cursor: DirWalker) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(cursor.descriptor) as entries:
        return iter([(entry.name, entry.stat(follow_symlinks=False)) for entry in entries])


def _mark(info: os.stat_result) -> Mark:
    size = 0 if stat.S_ISDIR(info.st_mode) else info.st_size
    return info.st_mode, info.st_uid, info.st_gid, size, info.st_ctime_ns


def identity(path: Path) -> str:
    """Return what differs whenever the content of a file, or of a directory with all below it, may have changed.
    Symlinks below are not followed. Raises OSError."""
    place = path.resolve(strict=True)
    text, last = _identity(place)
    step = _TICK if last % 10**9 else _WHOLE_SECONDS
    fresh = last + step - time.time_ns()
    if 0 < fresh <= step:  # the next change could have the same time: let it be another one
        time.sleep(fresh / 10**9)
        text, _ = _identity(place)
    return text


def _identity(place: Path) -> tuple[str, int]:
    """Return the identity, and the last change time."""
    if not place.is_dir():
        info = place.lstat()
        return _described(info), info.st_ctime_ns
    digest, last = hashlib.sha256(), 0
    top = open_directory(place)
    try:
        for name, info in sorted(_entries(top)):
            digest.update(os.fsencode(name) + f"\0{_described(info)}\n".encode())
            last = max(last, info.st_ctime_ns)
    finally:
        os.close(top)
    return digest.hexdigest(), last


def _described(info: os.stat_result) -> str:
    """Return the marks of an entry and its inode: a name that gets another file gets another one."""
    return f"{_mark(info)} {info.st_ino}"
