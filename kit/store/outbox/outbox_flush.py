"""Delivery of outboxes from finished or killed sessions, by any later kit. A session's outbox outlives a kill, and is
locked while the session runs: so whoever can lock it also records that a killed session has ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from kit.core.codec import UnreadableError, decode_json
from kit.core.errors import AwayError, KitError, UsageError
from kit.core.flock import try_lock
from kit.core.regular import open_regular
from kit.model.event import Change, SampleTaken, SessionStarted, StatusChanged
from kit.model.session import DONE, INTERRUPTED, RUNNING, Session
from kit.store.outbox.events import load_change
from kit.store.outbox.outbox import HEAD, Taker, whole_lines

STILL_RUNS = "its session is running and delivers it"


class Receiver(Taker, Protocol):
    """The receiver of a delivery."""

    def get(self, name: str) -> Session: ...

    def keep_outcomes(self, session: Session) -> None: ...


@dataclass(frozen=True)
class Delivery:
    """The result for one outbox. ``store``: its store, without a password; ``waits``: why it was not delivered, '' if
    it was; ``killed``: whether the end of its session was recorded with it."""

    path: Path
    session: str
    runs: int
    store: str
    waits: str = ""
    killed: bool = False

    def __str__(self) -> str:
        if self.waits:
            return f"{self.path} still waits: {self.waits}"
        stored = [f"{self.runs} runs of session {self.session} that had waited are stored"] if self.runs else []
        stored += [f"session {self.session} was killed; it is recorded as {INTERRUPTED}"] if self.killed else []
        return "; ".join(stored)


@dataclass(frozen=True)
class _Waiting:
    """An outbox's content."""

    store: str
    changes: tuple[Change, ...]

    @property
    def session(self) -> str:
        first = self.changes[0] if self.changes else None
        return first.session.id if isinstance(first, SessionStarted) else ""

    @property
    def empty(self) -> bool:
        """Return whether the store has received everything: the first change only names the session."""
        return len(self.changes) == 1

    @property
    def runs(self) -> int:
        return sum(isinstance(change, SampleTaken) for change in self.changes)

    @property
    def finished(self) -> bool:
        return any(isinstance(change, StatusChanged) and change.status == DONE for change in self.changes)


def deliver(store: Receiver, directory: Path) -> Iterator[Delivery]:
    """Give the store its outboxes. An outbox that fails stops no other; an unavailable server is asked once."""
    away = ""
    for path in sorted(directory.glob("*.jsonl")):
        try:
            opened = open_regular(path, os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # another kit has delivered it meanwhile
        except OSError as error:
            yield Delivery(path, path.stem, 0, "", f"it can't be delivered: {error.strerror}; move it away")
            continue
        with suppress(OSError), opened as file:
            try:
                delivery = _deliver(store, path, file, away)
            except AwayError as error:
                away = error.message
                delivery = _deliver(store, path, file, away)
            if delivery:
                yield delivery


def _deliver(store: Receiver, path: Path, file: IO[bytes], away: str) -> Delivery | None:
    """Deliver one outbox. None if it was empty, or another kit has delivered it meanwhile. A running session's outbox
    is read, but not changed. ``away``: why no store is available. Raises AwayError."""
    locked = try_lock(file.fileno())
    file.seek(0)
    if not os.fstat(file.fileno()).st_nlink:
        return None  # what has its name now is another's
    try:
        waiting = _read(file.read())
    except UnreadableError as error:
        return Delivery(path, path.stem, 0, "", f"it can't be delivered: {error.message}; move it away")
    if waiting is None:
        if locked:
            path.unlink()  # its session was killed before it had begun
        return None
    waits, killed = "" if locked else STILL_RUNS, False
    if waiting.store != store.name:
        waits = f"it is for {waiting.store}"
    elif locked:
        waits, killed = (away, False) if away else _give(store, waiting)
    if not waits:
        path.unlink()
    if waiting.empty and not killed:
        return None
    return Delivery(path, waiting.session, waiting.runs, waiting.store, waits, killed)


def _read(content: bytes) -> _Waiting | None:
    """Raises UnreadableError."""
    lines = whole_lines(content)
    if len(lines) < HEAD:
        return None
    head: dict[str, Any] = decode_json(dict[str, Any], lines[0])
    waiting = _Waiting(str(head.get("store")), tuple(load_change(line) for line in lines[1:]))
    if not waiting.session:
        raise UnreadableError("it does not say of which session it is")
    return waiting


def _give(store: Receiver, waiting: _Waiting) -> tuple[str, bool]:
    """Return why the store refused the outbox, '' if it did not, and whether the session's end was recorded. Outcomes
    of a finished session are computed as usual. Raises AwayError."""
    try:
        if not waiting.empty:
            store.take(waiting.session, waiting.changes)
        killed = _record_end(store, waiting.session)
    except AwayError:
        raise
    except KitError as error:
        return error.message, False
    if waiting.finished:
        with suppress(KitError):  # a history works it out, too
            store.keep_outcomes(store.get(waiting.session))
    return "", killed


def _record_end(store: Receiver, session: str) -> bool:
    """Record that a session has ended whose process died without a word. Return whether it was so."""
    try:
        if store.get(session).status != RUNNING:
            return False
    except UsageError:  # it was killed before the store had it
        return False
    store.take(session, [StatusChanged(INTERRUPTED)])
    return True
