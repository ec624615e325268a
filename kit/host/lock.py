"""One session at a time on one machine, served in the order in which they came.

What is locked (flock(2)) is a directory that is always there and that only root can replace: /run. Nothing is made,
written or changed, so there is nothing that somebody could lay in the way; root and ordinary users share it, since
reading is enough. Who waits locks its parent first: with two locks a session that ends and comes back at once can't
overtake those that wait. Among these the kernel wakes all when a lock is freed, and mostly the first one gets it; where
another does, it sees by the notes of those that wait that it was not its turn, and gives way.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from kit.core.errors import BusyError, MachineError
from kit.core.flock import try_lock
from kit.core.private import user_name
from kit.host.interrupt import interruptible

#: Notes for others to read: an abstract socket (unix(7)) is seen by all and gone with its process.
_HELD, _WAITS = "kit holds the machine", "kit waits for the machine"
#: How often who came later gives way, and for how long, seconds.
_GIVES_WAY, _MOMENT = 40, 0.05
_NAME = r"[\w.+-]+(?: [\w.+-]+)*"


@contextmanager
def machine_lock(
    directory: Path, name: str, wait: bool = False, on_wait: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the machine for ``name``. Raises BusyError naming the holder, or waits for it if ``wait``; MachineError."""
    with ExitStack() as stack:
        machine, queue = (stack.enter_context(_opened(path)) for path in (directory, directory.parent))
        if not (try_lock(queue) and try_lock(machine)):
            holder = _holder(machine, queue)
            if not wait:
                raise BusyError(
                    f"{holder} is running; two at once would measure each other", "add --wait, or let it finish"
                )
            if on_wait:
                on_wait(f"waiting for {holder}")
            with interruptible():
                _wait_turn(queue)
                fcntl.flock(machine, fcntl.LOCK_EX)
        fcntl.flock(queue, fcntl.LOCK_UN)
        stack.enter_context(_note(f"{_HELD}/{os.getpid()}/{time.strftime('%H:%M:%S')}/{name[:40]}"))
        yield


def _wait_turn(queue: int) -> None:
    """Lock the queue, in the order of arrival. One that came earlier and does not run (SIGSTOP) is not waited for."""
    arrived = time.monotonic_ns()
    inode = os.fstat(queue).st_ino
    with _note(f"{_WAITS}/{inode}/{arrived}/{os.getpid()}"):
        for _ in range(_GIVES_WAY):
            fcntl.flock(queue, fcntl.LOCK_EX)
            others = re.findall(rf" @{_WAITS}/{inode}/(\d+)/\d+$", _read("/proc/net/unix"), re.MULTILINE)
            if all(int(other) >= arrived for other in others):
                return
            fcntl.flock(queue, fcntl.LOCK_UN)
            time.sleep(_MOMENT)
    fcntl.flock(queue, fcntl.LOCK_EX)


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise MachineError(
            f"{directory}, whose lock keeps sessions apart, can't be opened: {error.strerror}",
            "it must be a directory that everyone may read",
        ) from None
    try:
        yield descriptor  # closing it frees the lock
    finally:
        os.close(descriptor)


@contextmanager
def _note(text: str) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as note:
        with suppress(OSError):  # a name that somebody else took first is his lie, not our failure
            note.bind(f"\0{text}")
        yield


def _holder(*descriptors: int) -> str:
    """Who holds the first of them that is locked: as it calls itself, else as the kernel knows it."""
    for descriptor in descriptors:
        info = os.fstat(descriptor)
        inode = f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}"
        found = re.search(rf"^\d+: FLOCK +ADVISORY +WRITE +(\d+) {inode} ", _read("/proc/locks"), re.MULTILINE)
        if found:
            return _describe(int(found[1]))
    return "another session"


def _describe(pid: int) -> str:
    note = re.search(rf" @{_HELD}/{pid}/([\d:]+)/({_NAME})$", _read("/proc/net/unix"), re.MULTILINE)
    if note:
        return f"session {note[2]} (process {pid}, since {note[1]})"
    try:
        return f"a session of {user_name(Path(f'/proc/{pid}').stat().st_uid)} (process {pid})"
    except OSError:
        return "another session"


def _read(path: str) -> str:
    """'' where the kernel does not tell."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
