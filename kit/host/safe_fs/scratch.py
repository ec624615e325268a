"""Scratch directories for things under construction."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.core.errors import RunError
from kit.core.flock import try_lock
from kit.host.safe_fs.remove import remove

#: Prefix of scratch directories once they are locked (flock(2)): an unlocked one belongs to a killed maker.
_PREFIX = ".scratch-"


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """Yield a new private directory in ``parent``; remove it with all its content at the end of the block. Raises
    RunError if the builder has left something mounted in it."""
    new = Path(tempfile.mkdtemp(prefix=".new-", dir=parent))
    descriptor = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        path = new.rename(parent / f"{_PREFIX}{new.name.removeprefix('.new-')}")
        try:
            yield path
        finally:
            remove(path)
    finally:
        os.close(descriptor)


def remove_abandoned(parent: Path) -> tuple[list[str], list[str]]:
    """Remove the scratch directories in ``parent`` whose makers were killed. Returns one sentence for each removal and
    for each failure."""
    removed: list[str] = []
    failures: list[str] = []
    for path in sorted(parent.glob(f"{_PREFIX}*")):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # its maker has removed it meanwhile
        try:
            if try_lock(descriptor):
                remove(path)
                removed.append(f"removed {path}, half made")
        except RunError as error:
            failures.append(f"{path} is left of a killed kit: {error.message}; fix: {error.hint}")
        finally:
            os.close(descriptor)
    return removed, failures
