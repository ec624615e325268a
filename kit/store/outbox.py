"""What a store has not taken yet is kept beside it, in one file for each session, until it does."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol, Self

from kit.core.codec import encode_json
from kit.core.errors import AwayError, KitError, MachineError, RunError
from kit.core.private import make_private
from kit.model.sample import Sample
from kit.model.session import Session
from kit.store.changes import Begin, Change, Flag, Status, dump_change, load_change

#: Bytes that a session's file takes from the disk at its beginning, so that a disk that becomes full has room for it.
RESERVED = 1 << 20

#: Lines that every file begins with: its store, and the session.
HEAD = 2

#: For each second that a server was waited for in vain it is left alone for so many: a session without it is slowed
#: down by 3 % at most, and a thousand machines don't fall upon one that comes back.
_REST = 30.0

#: Seconds that a file is waited for which another kit holds: one that delivers it holds it for a moment.
_HELD = 5.0


def outbox_directory(data: Path) -> Path:
    return data / "outbox"


class Taker(Protocol):
    """What an outbox needs of a store."""

    @property
    def name(self) -> str: ...

    @property
    def remote(self) -> bool: ...

    def take(self, session_id: str, changes: Sequence[Change]) -> None: ...


class Outbox:
    """Stands between a running session and its store, whose refusal never ends the session: a change is tried again
    with each later one and at the end, all in their order, and by the next kit that opens the store. What goes to a
    server is in the file first, so that whoever is killed meanwhile loses nothing; SQLite's own journal is as good as
    that. Where not even a file can be written, changes are held in memory until the end. ``tell`` is told when waiting
    begins and when it is over.
    """

    def __init__(self, session: Session, store: Taker, data: Path, tell: Callable[[str], None]) -> None:
        self._session, self._store, self._tell = session, store, tell
        self._path = outbox_directory(data) / f"{session.id}.jsonl"
        self._waiting: list[Change] = []
        self._kept = 0  # so many of them are in the file
        self._refused = False  # by the store, and told
        self._rest_until = 0.0  # on the monotonic clock
        self._file: _File | None = None
        self.lost = 0  # runs that are kept nowhere

    def __enter__(self) -> Self:
        """Raises RunError where the store still refuses what an earlier start of the session has left, or another
        process runs the session."""
        try:
            make_private(self._path.parent.parent)
            make_private(self._path.parent)
            self._file = self._open()
        except (OSError, MachineError):
            return self  # then there is memory
        try:
            if len(self._file.lines) > HEAD:
                self._waiting = [load_change(line) for line in self._file.lines[1:]]
                self._kept, self._refused = len(self._waiting), True
                self._pass_on()
            if self._waiting:
                raise RunError(f"{self._path} still waits for the store {self._store.name}", "mend the store first")
        except BaseException:
            self._file.close()
            raise
        return self

    def _open(self) -> _File:
        begin = dump_change(Begin(replace(self._session, samples=())))
        until = time.monotonic() + _HELD
        while True:
            try:
                return _File(self._path, [encode_json({"store": self._store.name}).encode(), begin])
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise RunError(
                        f"session {self._session.id} is running: another process has {self._path}",
                        "wait until it has ended; kit sessions tells",
                    ) from None
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self._rest_until = 0.0
        self._pass_on()
        count = sum(isinstance(change, Sample) for change in self._waiting)
        if not self._waiting:
            if self._file:
                with suppress(OSError):  # what is left of it is a head, which is delivered as nothing
                    self._path.unlink(missing_ok=True)
        elif self._kept == len(self._waiting):
            self._tell(f"{count} runs wait in {self._path}: kit sync, or what opens the store next, delivers them")
        else:
            self.lost = count
            self._tell(
                f"NOT STORED: {count} runs of session {self._session.id}, neither by {self._store.name} nor in "
                f"{self._path.parent}; what is printed now is all that is left of them: kit show will not have them"
            )
        if self._file:
            self._file.close()

    def create(self, session: Session) -> None:
        """Raises RunError where the store refuses it; one that is away hears of it later."""
        try:
            self._store.take(self._session.id, [Begin(session)])
        except AwayError:
            self._send(Begin(session))

    def update(self, session: Session) -> None:
        self._send(session)

    def add_sample(self, session_id: str, *samples: Sample) -> None:
        """All of them, or none."""
        self._send(*samples)

    def set_flags(self, session_id: str, arm: str, point: str, block: int, flags: str) -> None:
        self._send(Flag(arm, point, block, flags))

    def set_status(self, session_id: str, status: str) -> None:
        self._send(Status(status))

    def _send(self, *changes: Change) -> None:
        self._waiting += changes
        if self._store.remote:
            self._keep()
        self._pass_on()

    def _pass_on(self) -> None:
        began = time.monotonic()
        if not self._waiting or began < self._rest_until:
            return
        try:
            self._store.take(self._session.id, self._waiting)
        except KitError as error:
            now = time.monotonic()
            self._rest_until = now + _REST * (now - began) if self._store.remote else 0.0
            self._wait(error)
            return
        if self._refused:
            self._tell(f"the store {self._store.name} is back: what waited for it is stored")
        in_file = self._kept
        self._waiting, self._kept, self._refused = [], 0, False
        if self._file and in_file:
            self._forget(self._file)

    def _forget(self, file: _File) -> None:
        """What the store has must not be delivered again: a file that can't be written any more goes."""
        try:
            file.forget()
        except OSError as error:
            self._tell(f"{self._path}: {error.strerror}: no longer used")
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            file.close()
            self._file = None

    def _wait(self, refusal: KitError) -> None:
        failed = self._keep()
        if failed:
            self._tell(
                f"{refusal.message}; {self._path}: {failed}: what is measured is in memory alone. "
                "Free space on that disk before the session ends"
            )
        elif not self._refused:
            self._tell(f"{refusal.message}: what is measured waits in {self._path}")
        self._refused = True

    def _keep(self) -> str:
        """All that waits, in the file; why that failed, '' where it did not."""
        new = self._waiting[self._kept :]
        try:
            if new and self._file is None:
                return "can't be made"
            if new and self._file:
                self._file.add(*map(dump_change, new))
                self._kept += len(new)
        except OSError as error:
            return error.strerror or str(error)
        return ""


class _File:
    """Lines, each on the disk when ``add`` returns; their end is the first NUL. Locked as long as it is open."""

    def __init__(self, path: Path, head: list[bytes]) -> None:
        """Of a file that is there the lines are kept, else it begins with those of ``head``."""
        self._file = -1
        try:
            self._lock(path)
            self.lines = whole_lines(path.read_bytes())
            self._head = sum(len(line) + 1 for line in self.lines[: len(head)])
            self._end = sum(len(line) + 1 for line in self.lines)
            os.ftruncate(self._file, self._end)
            os.posix_fallocate(self._file, 0, RESERVED)
            if len(self.lines) < len(head):
                self._end = 0
                for line in head:
                    self.add(line)
                self._head = self._end
        except OSError:
            self.close()
            raise

    def _lock(self, path: Path) -> None:
        """Open it, and again where it was delivered and removed before it was locked."""
        while True:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(self._file).st_nlink:
                return
            os.close(self._file)
            self._file = -1

    def add(self, *lines: bytes) -> None:
        data, at = b"".join(line + b"\n" for line in lines), self._end
        while data:
            written = os.pwrite(self._file, data, at)
            data, at = data[written:], at + written
        os.fdatasync(self._file)
        self._end = at

    def forget(self) -> None:
        """All but the head, which says where the rest belongs."""
        os.pwrite(self._file, bytes(self._end - self._head), self._head)
        os.fdatasync(self._file)
        self._end = self._head

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)


def whole_lines(content: bytes) -> list[bytes]:
    """Of an outbox; a line without its end was never kept."""
    return content.partition(b"\0")[0].split(b"\n")[:-1]
