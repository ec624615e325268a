"""Ensures one session at a time on one machine.

The locked object (flock(2)) is /run: a directory that always exists and that only root can replace. Nothing is made,
written or changed, so nobody can obstruct the lock. Root and ordinary users share it, since reading is enough. The
kernel wakes all waiters when the lock is freed, and one of them gets it. A session that ends and restarts may overtake
them once or twice; a waiter is awake before the next session is planned."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kit.core.errors import BusyError, MachineError
from kit.core.flock import try_lock
from kit.core.private import user_name
from kit.host.interrupt import interruptible

#: A note for others to read: an abstract socket (unix(7)) is visible to all and ends with its process.
_HELD = "kit holds the machine"
#: How the report begins that another session holds the machine.
WAITING = "waiting for "
_NAME = r"[\w.+-]+(?: [\w.+-]+)*"


@contextmanager
def machine_lock(
    directory: Path, name: str, wait: bool = False, on_wait: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the machine for ``name``. Raises BusyError naming the holder, or waits for it if ``wait``; MachineError."""
    with _opened(directory) as machine:
        if not try_lock(machine):
            holder = _holder(machine)
            if not wait:
                raise BusyError(
                    f"{holder} is running; concurrent sessions would disturb each other", "wait with --wait, or stop it"
                )
            if on_wait:
                on_wait(f"{WAITING}{holder}")
            with interruptible():
                fcntl.flock(machine, fcntl.LOCK_EX)
        with _note(f"{_HELD}/{os.getpid()}/{time.strftime('%H:%M:%S')}/{name[:40]}"):
            yield


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise MachineError(
            f"{directory}, whose lock keeps sessions apart, can't be opened: {error.strerror}",
            "make it a directory that everyone may read",
        ) from None
    try:
        yield descriptor  # closing it frees the lock
    finally:
        os.close(descriptor)


@contextmanager
def _note(text: str) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as note:
        with suppress(OSError):  # a name that somebody else took first is not this session's failure
            note.bind(f"\0{text}")
        yield


def _holder(descriptor: int) -> str:
    """Return who holds the lock: the session's name, else the kernel's information."""
    info = os.fstat(descriptor)
    inode = f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}"
    match = re.search(rf"^\d+: FLOCK +ADVISORY +WRITE +(\d+) {inode} ", _read("/proc/locks"), re.MULTILINE)
    return _describe(int(match[1])) if match else "another session"


def _describe(pid: int) -> str:
    note = re.search(rf" @{_HELD}/{pid}/([\d:]+)/({_NAME})$", _read("/proc/net/unix"), re.MULTILINE)
    if note:
        return f"session {note[2]} (process {pid}, since {note[1]})"
    try:
        return f"a session of {user_name(Path(f'/proc/{pid}').stat().st_uid)} (process {pid})"
    except OSError:
        return "another session"


def _read(path: str) -> str:
    """Return the holder's name, '' if the kernel does not give one."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
