"""Files are given up in the page cache, and read into it."""

import ctypes
import mmap
import os
from pathlib import Path

from kit.session.setup.caches import forget_below, read_below

_LIBC = ctypes.CDLL(None, use_errno=True)


def cached(path: Path) -> bool:
    """Whether the page cache has the first page (mincore(2)). A read with RWF_NOWAIT may fetch it from the disk."""
    resident = ctypes.c_ubyte()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), mmap.PAGESIZE) as pages:
        first = ctypes.c_char.from_buffer(pages)
        failed = _LIBC.mincore(ctypes.byref(first), ctypes.c_size_t(mmap.PAGESIZE), ctypes.byref(resident))
        del first
    assert not failed, os.strerror(ctypes.get_errno())
    return bool(resident.value & 1)


def test_what_is_given_up_is_gone_until_it_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    files = [tmp_path / "one", tmp_path / "below" / "two"]
    for path in files:
        path.write_bytes(os.urandom(100_000))
        with path.open("rb") as file:
            os.fsync(file.fileno())
    assert all(map(cached, files))
    forget_below(tmp_path)
    assert not any(map(cached, files))
    read_below(tmp_path)
    assert all(map(cached, files))
