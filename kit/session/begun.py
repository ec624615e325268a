"""Which sessions were begun here: who may write to a shared store can put any command into it, so the store's word on
what a session would run is taken only where this user's own record agrees."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

from kit.core.codec import encode_json
from kit.core.errors import KitError, UsageError, said_by_system
from kit.core.private import make_private
from kit.model.session import Request, Session

#: Bytes of a record.
_LENGTH = 64


def record_begun(data: Path, session: Session, tell: Callable[[str], None]) -> None:
    """Record below the data directory what a new session runs, before a store hears of it. Where that fails, the
    session goes on and can't be resumed, as ``tell`` is told."""
    try:
        make_private(data)
        make_private(data / "begun")
        descriptor = os.open(_path(data, session.id), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(_digest(session))
            file.flush()
            os.fsync(file.fileno())
    except (KitError, OSError) as error:
        reason = error.message if isinstance(error, KitError) else said_by_system(error)
        tell(f"session {session.id} can't be resumed if it stops: {reason}")


def check_begun(data: Path, session: Session) -> None:
    """Check that the session was begun here by this user and that the store has it as it was. Raises UsageError."""
    recorded = b""
    if (data / "begun").is_dir():
        make_private(data)
        make_private(data / "begun")
        with suppress(OSError):
            descriptor = os.open(_path(data, session.id), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                recorded = file.read(_LENGTH + 1)
    if not recorded:
        raise UsageError(
            f"session {session.id} was not begun here: {data / 'begun'} has no record of it",
            "resume it on the machine and as the user that began it, with the same KIT_HOME; or start a new one",
        )
    if recorded != _digest(session):
        raise UsageError(
            f"session {session.id} is not what was begun here: somebody has changed its command or its arms in the "
            "store, or another kit has begun it",
            "start a new one: kit compare; who may write to the store: kit store setup",
        )


def _path(data: Path, session_id: str) -> Path:
    return data / "begun" / session_id


def _digest(session: Session) -> bytes:
    """Of all that says what is run. Options that have their defaults are left out: a later kit has more of them."""
    unset = Request()
    given = {item.name: getattr(session.request, item.name) for item in fields(Request)}
    request = {name: value for name, value in given.items() if value != getattr(unset, name)}
    planned = [session.id, request, session.arms, session.baselines, session.seed]
    return hashlib.sha256(encode_json(planned).encode()).hexdigest().encode()
