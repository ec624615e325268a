"""Outboxes of sessions that are over, or were killed: each is given to its store, whoever comes by."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from kit.core.codec import UnreadableError, decode_json
from kit.core.errors import AwayError, KitError
from kit.core.flock import try_lock
from kit.model.sample import Sample
from kit.model.session import DONE, Session
from kit.store.changes import Begin, Change, Status, load_change
from kit.store.outbox import HEAD, Taker, whole_lines

RUNNING = "its session is running and delivers it"


class Receiver(Taker, Protocol):
    """What is delivered to."""

    def get(self, name: str) -> Session: ...

    def keep_outcomes(self, session: Session) -> None: ...


@dataclass(frozen=True)
class Delivery:
    """What came of one outbox. ``store``: the one that it is for, without a password; ``waits``: why it is still there,
    '' where it was delivered."""

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
        return first.session.id if isinstance(first, Begin) else ""

    @property
    def runs(self) -> int:
        return sum(isinstance(change, Sample) for change in self.changes)

    @property
    def finished(self) -> bool:
        return any(isinstance(change, Status) and change.status == DONE for change in self.changes)


def deliver(store: Receiver, directory: Path) -> Iterator[Delivery]:
    """Give the store what is its own. One outbox that can't be delivered stops no other; a server that is away is
    asked once."""
    away = ""
    for path in sorted(directory.glob("*.jsonl")):
        with suppress(OSError), path.open("rb") as file:
            try:
                found = _deliver(store, path, file, away)
            except AwayError as error:
                away = error.message
                found = _deliver(store, path, file, away)
            if found:
                yield found


def _deliver(store: Receiver, path: Path, file: BinaryIO, away: str) -> Delivery | None:
    """None where nothing was in it, or another kit has delivered it meanwhile. What a running session has in its own is
    looked at, but not touched. ``away``: why there is no store to give it to. Raises AwayError."""
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
    """Why the store did not take it; what a finished session found is worked out as if it had been there all along.
    Raises AwayError."""
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
