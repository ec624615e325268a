"""When an entry of a cache was last used. The time is the entry's access time, set by the kit itself: mounts with
noatime do not keep it, and reads below a directory do not change the directory's."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path


def mark_used(entry: Path) -> None:
    """Record that a file or directory of a cache is used now. A cache that may only be read stays as it is."""
    with suppress(OSError):
        info = entry.stat()
        os.utime(entry, ns=(time.time_ns(), info.st_mtime_ns))


def last_used(entry: Path) -> float:
    """Return the Unix time of the last use, or of the entry's making. Raises OSError."""
    info = entry.lstat()
    return max(info.st_atime, info.st_mtime)
