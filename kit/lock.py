"""One session at a time on one machine: a file lock that names its holder."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kit.errors import BusyError, MachineError


@contextmanager
def machine_lock(
    path: Path, name: str, wait: bool = False, on_wait: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the machine for ``name``. Raises BusyError naming the holder, or waits for it if ``wait``."""
    with _open(path) as file:
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
        holder = json.dumps({"name": name, "pid": os.getpid(), "since": time.strftime("%H:%M:%S")})
        _write(file, holder)
        try:
            yield
        finally:
            _write(file, "")


def _open(path: Path) -> IO[str]:
    """Open the file for whoever asks, whoever made it. The kernel forbids O_CREAT on another user's file in a
    directory such as /run/lock (fs.protected_regular), so a file that is there is opened without it."""
    for flags, mode in ((os.O_RDWR, "r+"), (os.O_RDWR | os.O_CREAT, "r+"), (os.O_RDONLY, "r")):
        try:
            descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
        except OSError:
            continue
        if flags & os.O_CREAT:
            os.fchmod(descriptor, 0o666)  # past the umask
        return os.fdopen(descriptor, mode)
    raise MachineError(f"the lock file {path} can't be opened", "who owns it? remove it if no session runs")


def _write(file: IO[str], text: str) -> None:
    if file.writable():
        file.seek(0)
        file.truncate(0)
        file.write(text)
        file.flush()


def _describe(text: str) -> str:
    try:
        holder = json.loads(text)
        return f"session {holder['name']} (process {holder['pid']}, since {holder['since']})"
    except (ValueError, KeyError, TypeError):
        return "another session"
