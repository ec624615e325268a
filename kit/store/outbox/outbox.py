"""A file for each session with the changes that the store has not received yet.

It is a file of lines, no second database: both cost one fsync a run. The file reserves its room when the session
begins, people can read it, and its lock distinguishes a running session's from a dead one's."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol, Self

from kit.core.codec import encode_json, encode_tagged
from kit.core.errors import AwayError, KitError, MachineError, RunError
from kit.core.private import make_private
from kit.core.regular import check_regular
from kit.model.event import Change, Event, EventSink, SampleTaken, SessionStarted
from kit.model.session import Session
from kit.store.outbox.events import load_change

#: Bytes that a session's file reserves on the disk at its beginning, in case the disk becomes full.
RESERVED = 1 << 20

#: The first lines of every file: its store, and the session.
HEAD = 2

#: Seconds without further attempts for each second of waiting in vain for a server. So a session is slowed down by 3 %
#: at most, and a thousand machines do not overload a server that returns.
_REST = 30.0

#: Seconds to wait for a file that another kit has locked: a delivery locks it briefly.
_HELD = 5.0


def outbox_directory(data: Path) -> Path:
    return data / "outbox"


class Taker(Protocol):
    """The store as an outbox needs it."""

    @property
    def name(self) -> str: ...

    @property
    def remote(self) -> bool: ...

    def take(self, session_id: str, changes: Sequence[Change]) -> None: ...


class Outbox(EventSink):
    """Connects a running session and its store, whose errors never end the session. A failed change is tried again with
    each later one and at the end, all in their order, and by the next kit that opens the store. Changes for a server
    are written to the file first, so that a killed session loses nothing; SQLite's own journal does the same. If the
    file can't be written, changes stay in memory until the end. ``tell`` is called when waiting begins and ends."""

    def __init__(self, session: Session, store: Taker, data: Path, tell: Callable[[str], None]) -> None:
        self._session, self._store, self._tell = session, store, tell
        self._path = outbox_directory(data) / f"{session.id}.jsonl"
        self._waiting: list[Change] = []
        self._kept = 0  # number of them in the file
        self._refused = False  # by the store, and reported
        self._rest_until = 0.0  # on the monotonic clock
        self._file: _File | None = None
        self.lost = 0  # runs that are kept nowhere

    def __enter__(self) -> Self:
        """Raises RunError if the store still refuses changes of the session's earlier start, or another process runs
        the session."""
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
                waits = f"{self._path} still waits for the store {self._store.name}"
                raise RunError(waits, "run kit sync, which prints why the store refuses it")
        except BaseException:
            self._file.close()
            raise
        return self

    def _open(self) -> _File:
        begin = encode_tagged(SessionStarted(replace(self._session, samples=())))
        until = time.monotonic() + _HELD
        while True:
            try:
                return _File(self._path, [encode_json({"store": self._store.name}).encode(), begin])
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise RunError(
                        f"session {self._session.id} is running: another process has {self._path}",
                        "wait until it has ended; see kit sessions",
                    ) from None
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self._rest_until = 0.0
        self._pass_on()
        count = sum(isinstance(change, SampleTaken) for change in self._waiting)
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
                f"{self._path.parent}; save this output: kit show will not have them"
            )
        if self._file:
            self._file.close()

    def create(self, session: Session) -> None:
        """Raises RunError if the store refuses the session; an unavailable store receives it later."""
        started = SessionStarted(replace(session, samples=()))
        try:
            self._store.take(self._session.id, [started])
        except AwayError:
            self._send(started)

    def take(self, *events: Event) -> None:
        """Store all events that a store keeps, or none."""
        changes = [event for event in events if isinstance(event, Change) and not isinstance(event, SessionStarted)]
        if changes:
            self._send(*changes)

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
        """Remove delivered changes, so that they are not delivered again. A file that can't be written is deleted."""
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
        """Write all waiting changes to the file. Return why that failed, '' if it did not."""
        new = self._waiting[self._kept :]
        try:
            if new and self._file is None:
                return "can't be made"
            if new and self._file:
                self._file.add(*map(encode_tagged, new))
                self._kept += len(new)
        except OSError as error:
            return error.strerror or str(error)
        return ""


class _File:
    """Lines, each on the disk when ``add`` returns; the first NUL ends them. Locked as long as the file is open."""

    def __init__(self, path: Path, head: list[bytes]) -> None:
        """Keep the lines of an existing file; begin a new one with ``head``."""
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
        """Open and lock the file, again if it was delivered and removed before the lock."""
        while True:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            check_regular(self._file, path)
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
        """Remove all lines but the head, which names store and session."""
        os.pwrite(self._file, bytes(self._end - self._head), self._head)
        os.fdatasync(self._file)
        self._end = self._head

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)


def whole_lines(content: bytes) -> list[bytes]:
    """Return the complete lines of an outbox; a line without its end was never stored."""
    return content.partition(b"\0")[0].split(b"\n")[:-1]
