"""Tests whether a device or a file contains data, by reading it: tools that look for signatures can miss data."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Iterator
from pathlib import Path

#: Bytes that are read at each end, where partition tables, superblocks and their copies are.
_EDGE = 4 << 20
#: Number and size of the evenly spaced samples between; a device of up to 64 MiB is read completely.
_SAMPLES, _SAMPLE = 256, 64 << 10
_WHOLE = 64 << 20
_CHUNK = 1 << 20
_ALIGNED = 4096


def first_data(path: Path) -> int | None:
    """Return the offset of the first non-zero byte; None if every byte read is zero.

    The first and the last 4 MiB are read, and samples of 16 MiB in total between them. Data between the samples is not
    detected. Reads bypass the page cache. Raises OSError; EBUSY for a device in use."""
    descriptor = _open(path)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        with mmap.mmap(-1, _CHUNK) as buffer:  # its address is aligned, as O_DIRECT demands
            for start, length in _regions(size):
                got = os.preadv(descriptor, [memoryview(buffer)[:length]], start)
                rest = buffer[:got].lstrip(b"\0")
                if rest:
                    return start + got - len(rest)
    finally:
        os.close(descriptor)
    return None


def _open(path: Path) -> int:
    # O_EXCL: nobody uses the block device, by a mount in any namespace, as swap or for a mapping (open(2)).
    claim = os.O_EXCL if stat.S_ISBLK(path.stat().st_mode) else 0
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECT | claim)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, os.O_RDONLY | claim)  # a filesystem without direct I/O


def _regions(size: int) -> Iterator[tuple[int, int]]:
    """Yield offset and length of each read, both aligned; the last may extend beyond the end."""
    if size <= _WHOLE:
        yield from _chunks(0, size)
        return
    tail = (size - _EDGE) // _ALIGNED * _ALIGNED
    yield from _chunks(0, _EDGE)
    step = (tail - _EDGE) // _SAMPLES
    for number in range(_SAMPLES):
        yield (_EDGE + number * step) // _ALIGNED * _ALIGNED, _SAMPLE
    yield from _chunks(tail, size)


def _chunks(start: int, end: int) -> Iterator[tuple[int, int]]:
    for offset in range(start, end, _CHUNK):
        yield offset, min(_CHUNK, -(-(end - offset) // _ALIGNED) * _ALIGNED)
