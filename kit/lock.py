"""One session at a time on one machine: a file lock that names its holder."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.errors import BusyError


@contextmanager
def machine_lock(
    path: Path, name: str, wait: bool = False, on_wait: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the machine for ``name``. Raises BusyError naming the holder, or waits for it if ``wait``."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "r+") as file:
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = _describe(file.read())
                file.seek(0)
                if not wait:
                    raise BusyError(
                        f"{holder} is running; two at once would measure each other", "add --wait, or let it finish"
                    ) from None
                if on_wait and not told:
                    on_wait(f"waiting for {holder}")
                    told = True
                time.sleep(0.5)
        file.truncate(0)
        json.dump({"name": name, "pid": os.getpid(), "since": time.strftime("%H:%M:%S")}, file)
        file.flush()
        try:
            yield
        finally:
            file.seek(0)
            file.truncate(0)


def _describe(text: str) -> str:
    try:
        holder = json.loads(text)
        return f"session {holder['name']} (process {holder['pid']}, since {holder['since']})"
    except (ValueError, KeyError, TypeError):
        return "another session"
