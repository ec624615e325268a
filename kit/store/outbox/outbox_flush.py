"""Delivery of outboxes from finished or killed sessions, by any later kit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from kit.core.codec import UnreadableError, decode_json
from kit.core.errors import AwayError, KitError
from kit.core.flock import try_lock
from kit.core.regular import open_regular
from kit.model.event import Change, SampleTaken, SessionStarted, StatusChanged
from kit.model.session import DONE, Session
from kit.store.outbox.events import load_change
from kit.store.outbox.outbox import HEAD, Taker, whole_lines

RUNNING = "its session is running and delivers it"


class Receiver(Taker, Protocol):
    """The receiver of a delivery."""

    def get(self, name: str) -> Session: ...

    def keep_outcomes(self, session: Session) -> None: ...


@dataclass(frozen=True)
class Delivery:
    """The result for one outbox. ``store``: its store, without a password; ``waits``: why it was not delivered, '' if
    it was."""

    path: Path
    session: str
    runs: int
    store: str
    waits: str = ""

    def __str__(self) -> str:
        if not self.waits:
            return f"{self.runs} runs of session {self.session} that had waited are stored"
        return f"{self.path} still waits: {self.waits}"


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
                found = _deliver(store, path, file, away)
            except AwayError as error:
                away = error.message
                found = _deliver(store, path, file, away)
            if found:
                yield found


def _deliver(store: Receiver, path: Path, file: IO[bytes], away: str) -> Delivery | None:
    """Deliver one outbox. None if it was empty, or another kit has delivered it meanwhile. A running session's outbox
    is read, but not changed. ``away``: why no store is available. Raises AwayError."""
    mine = try_lock(file.fileno())
    file.seek(0)
    if not os.fstat(file.fileno()).st_nlink:
        return None  # what has its name now is another's
    try:
        found = _read(file.read())
    except UnreadableError as error:
        return Delivery(path, path.stem, 0, "", f"it can't be delivered: {error.message}; move it away")
    if found is None or len(found.changes) == 1:
        if mine and (found is None or found.store == store.name):
            path.unlink()  # its session was killed before it had begun, or between two runs
        return None
    waits = "" if mine else RUNNING
    if found.store != store.name:
        waits = f"it is for {found.store}"
    elif mine:
        waits = away or _give(store, found)
    if not waits:
        path.unlink()
    return Delivery(path, found.session, found.runs, found.store, waits)


def _read(content: bytes) -> _Waiting | None:
    """Raises UnreadableError."""
    lines = whole_lines(content)
    if len(lines) < HEAD:
        return None
    head: dict[str, Any] = decode_json(dict[str, Any], lines[0])
    found = _Waiting(str(head.get("store")), tuple(load_change(line) for line in lines[1:]))
    if not found.session:
        raise UnreadableError("it does not say of which session it is")
    return found


def _give(store: Receiver, found: _Waiting) -> str:
    """Return why the store refused the outbox. Outcomes of a finished session are computed as usual. Raises
    AwayError."""
    try:
        store.take(found.session, found.changes)
    except AwayError:
        raise
    except KitError as error:
        return error.message
    if found.finished:
        with suppress(KitError):  # a history works it out, too
            store.keep_outcomes(store.get(found.session))
    return ""
