"""What a filesystem's kernel notes of stores into the page cache: bytes, by page or by whole folio; and times."""

from __future__ import annotations

import mmap
import os
import resource
import tempfile
import threading
from pathlib import Path

#: The file that is read and written, one byte at each step. Its folios are of up to 2 MiB.
_SIZE, _STEP = 4 << 20, 1 << 18
#: Bytes of the unit of ru_oublock (getrusage(2)): the kernel counts what a process dirtied in the page cache or wrote
#: directly.
BLOCK = 512


def counts_whole_folios(directory: Path) -> bool:
    """Return whether ru_oublock counts more than the pages that a program changes. So it is on XFS, and on ext4 since
    Linux 6.16: one byte written to a file that is cached in folios of 1 MiB counts as 1 MiB. Nothing is written to the
    disk. Returns True if that can't be tried. Raises nothing."""
    dirtied: list[int] = []

    def write() -> None:
        with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
            file.truncate(_SIZE)
            while file.read(1 << 20):
                pass
            before = _dirtied()
            for start in range(0, _SIZE, _STEP):
                os.pwrite(file.fileno(), b"x", start)
            dirtied.append(_dirtied() - before)

    def attempt() -> None:
        try:
            write()
        except OSError:
            dirtied.append(_SIZE)

    thread = threading.Thread(target=attempt, name="dirtied")  # its own count: other threads write, too
    thread.start()
    thread.join()
    return dirtied[0] > 2 * (_SIZE // _STEP) * resource.getpagesize()


def _dirtied() -> int:
    """Return the bytes that this thread has dirtied."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_oublock * BLOCK


def stores_move_times(directory: Path) -> bool:
    """Return whether a store through a shared mapping moves the times of its file. On tmpfs it does not, if the page
    was read before: the kernel is not asked then. Raises OSError."""
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        file.write(bytes(mmap.PAGESIZE))
        os.utime(file.fileno(), (1, 1))
        with mmap.mmap(file.fileno(), mmap.PAGESIZE) as pages:
            pages[0] = pages[0] + 1
            pages.flush()
        return os.fstat(file.fileno()).st_mtime != 1
