"""Whether a filesystem's times show a store through a shared mapping."""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path


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
