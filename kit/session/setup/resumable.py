"""Which sessions can continue here. Anyone who may write to a shared store can put any command into it. So the store
decides what a session runs only if this user's own record agrees."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from kit.core.codec import encode_json
from kit.core.errors import KitError, UsageError, said_by_system
from kit.core.private import make_private
from kit.core.regular import open_regular
from kit.model.fact import PROGRAM, RUNNING_ENGINE, Fact, Kind
from kit.model.plan import Plan
from kit.model.session import Request, Session

#: Bytes of a record.
_LENGTH = 64


def record_begun(data: Path, session: Session, tell: Callable[[str], None]) -> None:
    """Record below the data directory what a new session runs, before the store has it. If that fails, the session runs
    but can't be resumed, as ``tell`` reports."""
    try:
        make_private(data)
        make_private(data / "begun")
        descriptor = os.open(_path(data, session.id), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, _digest(session))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except (KitError, OSError) as error:
        reason = error.message if isinstance(error, KitError) else said_by_system(error)
        tell(f"session {session.id} can't be resumed if it stops: {reason}")


def check_begun(data: Path, session: Session) -> None:
    """Check that this user began the session here and that the store has it unchanged. Raises UsageError."""
    recorded = b""
    if (data / "begun").is_dir():
        make_private(data)
        make_private(data / "begun")
        with suppress(OSError), open_regular(_path(data, session.id), os.O_NOFOLLOW) as file:
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
            "start a new one with kit compare; check who may write with kit store setup",
        )


def was_begun(data: Path, session: Session) -> bool:
    """Return whether this user began the session here and the store has it unchanged. Raises MachineError if others may
    write to the records."""
    try:
        check_begun(data, session)
    except UsageError:
        return False
    return True


def check_kernel(session: Session, kind: Kind, kernel: str) -> None:
    """Raises UsageError if the session began on another kernel: runs on two kernels are not comparable."""
    then = kind.text(session.facts, default=kernel)
    if then != kernel:
        raise UsageError(
            f"session {session.id} ran on kernel {then}, this is {kernel}", "start a new one with kit compare"
        )


def check_engines(session: Session, found: Iterable[Fact]) -> None:
    """Raises UsageError if the session has runs of another version of an engine or of its parts: they are not
    comparable."""
    for fact in found if session.samples else ():
        then = session.facts.get(fact.key, fact.text)
        if fact.kind in (PROGRAM, RUNNING_ENGINE) and then != fact.text:
            raise UsageError(
                f"session {session.id} ran with {fact.key} {then}, here it is {fact.text}",
                "start a new one with kit compare; or install that version again, and resume",
            )


def _path(data: Path, session_id: str) -> Path:
    return data / "begun" / session_id


def _digest(session: Session) -> bytes:
    """Return the digest of everything that says what is run. Options with default values are left out: a later kit has
    more of them."""
    planned = [session.id, _given(session.request), _given(session.kept_plan())]
    return hashlib.sha256(encode_json(planned).encode()).hexdigest().encode()


def _given(options: Request | Plan) -> dict[str, Any]:
    values = ((option, getattr(options, option.name)) for option in fields(options))
    return {option.name: value for option, value in values if value != option.default}
