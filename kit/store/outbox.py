"""What a store refused is kept beside it, in one file for each session, until the store takes it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, Self

from kit.core.codec import UnreadableError, decode_json, encode_json
from kit.core.errors import KitError, RunError
from kit.core.private import close_directory
from kit.model.sample import Sample
from kit.model.session import Session
from kit.store.changes import Begin, Change, Flag, Status, dump_change, load_change

#: Bytes that a session's file takes from the disk at its beginning, so that a disk that becomes full has room for it.
RESERVED = 1 << 20

#: Lines that every file begins with: its store, and the session.
_HEAD = 2


def outbox_directory(data: Path) -> Path:
    return data / "outbox"


class Taker(Protocol):
    """What an outbox needs of a store."""

    @property
    def name(self) -> str: ...

    def take(self, session_id: str, changes: Sequence[Change]) -> None: ...


class Outbox:
    """Stands between a running session and its store, whose refusal never ends the session: a change is tried again
    with each later one and at the end, all in their order, and by the next kit that opens the store. Where not even a
    file can be written, changes are held in memory until the end. ``tell`` is told when it begins and when it is over.
    """

    def __init__(self, session: Session, store: Taker, data: Path, tell: Callable[[str], None]) -> None:
        self._session, self._store, self._tell = session, store, tell
        self._path = outbox_directory(data) / f"{session.id}.jsonl"
        self._waiting: list[Change] = []
        self._kept = 0  # so many of them are in the file
        self._file: _File | None = None
        self.lost = 0  # runs that are kept nowhere

    def __enter__(self) -> Self:
        """Raises RunError where the store still refuses what an earlier start of the session has left."""
        try:
            close_directory(self._path.parent.parent)
            close_directory(self._path.parent)
            begin = dump_change(Begin(replace(self._session, samples=())))
            self._file = _File(self._path, [encode_json({"store": self._store.name}).encode(), begin])
        except OSError:
            return self  # then there is memory
        try:
            if len(self._file.lines) > _HEAD:
                self._waiting = [load_change(line) for line in self._file.lines[1:]]
                self._kept = len(self._waiting)
                self._pass_on()
            if self._waiting:
                raise RunError(f"{self._path} still waits for the store {self._store.name}", "mend the store first")
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._pass_on()
        count = sum(isinstance(change, Sample) for change in self._waiting)
        if not self._waiting:
            if self._file:
                with suppress(OSError):  # what is left of it is a head, which is delivered as nothing
                    self._path.unlink(missing_ok=True)
        elif self._kept == len(self._waiting):
            self._tell(f"{count} runs wait in {self._path}; the next kit command that opens the store delivers them")
        else:
            self.lost = count
            self._tell(
                f"NOT STORED: {count} runs of session {self._session.id}, neither by {self._store.name} nor in "
                f"{self._path.parent}; what is printed now is all that is left of them: kit show will not have them"
            )
        if self._file:
            self._file.close()

    def update(self, session: Session) -> None:
        self._send(session)

    def add_sample(self, session_id: str, sample: Sample) -> None:
        self._send(sample)

    def set_flags(self, session_id: str, arm: str, point: str, block: int, flags: str) -> None:
        self._send(Flag(arm, point, block, flags))

    def set_status(self, session_id: str, status: str) -> None:
        self._send(Status(status))

    def _send(self, change: Change) -> None:
        self._waiting.append(change)
        self._pass_on()

    def _pass_on(self) -> None:
        if not self._waiting:
            return
        before = len(self._waiting) - 1
        try:
            self._store.take(self._session.id, self._waiting)
        except RunError as error:
            self._keep(error, first=not before)
            return
        if self._kept:
            self._tell(f"the store {self._store.name} is back: what waited for it is stored")
        self._waiting, self._kept = [], 0
        if self._file:
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

    def _keep(self, refusal: RunError, first: bool) -> None:
        try:
            for change in self._waiting[self._kept :]:
                if self._file is None:
                    raise OSError(0, "can't be made")
                self._file.add(dump_change(change))
                self._kept += 1
        except OSError as error:
            self._tell(
                f"{refusal.message}; {self._path}: {error.strerror}: what is measured is in memory alone. "
                "Free space on that disk before the session ends"
            )
        else:
            if first:
                self._tell(f"{refusal.message}: what is measured waits in {self._path}")


class _File:
    """Lines, each on the disk when ``add`` returns; their end is the first NUL. Locked as long as it is open."""

    def __init__(self, path: Path, head: list[bytes]) -> None:
        """Of a file that is there the lines are kept, else it begins with those of ``head``."""
        self._file = -1
        try:
            self._lock(path)
            self.lines = _lines(path.read_bytes())
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

    def add(self, line: bytes) -> None:
        data, at = line + b"\n", self._end
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


def deliver(store: Taker, directory: Path, tell: Callable[[str], None]) -> None:
    """Give the store what sessions that are over could not; those that run do it themselves."""
    for path in sorted(directory.glob("*.jsonl")):
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(file.fileno()).st_nlink:
                continue  # another kit has delivered it; what has its name now is another's
            try:
                _deliver(store, path, file.read(), tell)
            except UnreadableError as error:
                tell(f"{path} can't be delivered: {error.message}; move it away")
            except KitError as error:
                tell(f"{path} still waits: {error.message}")


def _lines(content: bytes) -> list[bytes]:
    return content.partition(b"\0")[0].split(b"\n")[:-1]  # a line without its end was never kept


def _deliver(store: Taker, path: Path, content: bytes, tell: Callable[[str], None]) -> None:
    lines = _lines(content)
    if len(lines) < _HEAD:
        path.unlink()
        return
    head: dict[str, Any] = decode_json(dict[str, Any], lines[0])
    if head.get("store") != store.name:
        return
    changes = [load_change(line) for line in lines[1:]]
    if len(changes) > 1 and isinstance(changes[0], Begin):
        session = changes[0].session.id
        store.take(session, changes)
        count = sum(isinstance(change, Sample) for change in changes)
        tell(f"{count} runs of session {session} that had waited are stored")
    path.unlink()
