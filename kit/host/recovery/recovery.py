"""Finds in the journals what dead sessions left behind, and undoes it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import KitError, MachineError
from kit.core.flock import try_lock
from kit.core.private import make_private, user_name
from kit.host.recovery.cleanup import Cleanups
from kit.host.recovery.journal import parse
from kit.host.recovery.process_id import Owner


@dataclass(frozen=True)
class Cleaned:
    """The result: one sentence for each undone thing, and for each journal that was left alone."""

    undone: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class _RefusedError(Exception):
    """A journal that no session of this kit can have written."""


def clean(directory: Path, cleanups: Cleanups) -> Cleaned:
    """Undo the entries in the journals of dead sessions; the caller holds the machine lock. Journals of live sessions
    stay unchanged. An invalid journal is put aside and never obeyed. Raises KitError if a leftover would disturb a
    session, or if others could write to the directory."""
    if not directory.is_symlink() and not directory.exists():
        return Cleaned()
    make_private(directory)
    undone: list[str] = []
    leftovers: list[str] = []
    for path in sorted(directory.glob("*.jsonl")):
        try:
            with _read(path, cleanups) as (runs, entries):
                if runs:
                    leftovers.append(f"{path.stem} still runs ({runs}): nothing of it is removed")
                    continue
                failures: list[str] = []
                undone += _undo_all(path.stem, entries, cleanups, failures)
                leftovers += failures
                if not failures:
                    path.unlink()  # locked until then: a new journal of that name waits
        except _RefusedError as error:
            aside = _put_aside(path)
            leftovers.append(f"journal {path}: {error}; nothing of it was undone, see {aside.name}")
    return Cleaned(tuple(undone), tuple(leftovers))


def _put_aside(path: Path) -> Path:
    try:
        return path.rename(path.with_suffix(".refused"))
    except OSError as error:
        raise MachineError(f"{path} can't be put aside: {error.strerror}", f"remove {path} by hand") from None


def _undo_all(session: str, entries: list[tuple[str, str]], cleanups: Cleanups, failures: list[str]) -> list[str]:
    """Undo the entries. ``failures`` names those that fail and disturb no session; the next call tries them again."""
    removed = []
    for name, kind in cleanups.items():
        for value in [value for entry, value in reversed(entries) if entry == name]:
            if kind.gone(value):
                continue
            try:
                kind.undo_one(name, value)
            except KitError as error:
                text = f"session {session} left a {name} {value}: {error.message}"
                if not kind.at_rest:
                    raise type(error)(text, error.hint) from None
                failures.append(f"{text}; fix: {error.hint}")
                continue
            removed.append(f"{session}: removed {name} {value}")
    return removed


@contextmanager
def _read(path: Path, cleanups: Cleanups) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield '' or the process that still runs, and the entries. A dead session's journal is locked for the length of
    the block. Raises _RefusedError."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        reason = "it is a link" if path.is_symlink() else os.strerror(error.errno or 0)
        raise _RefusedError(reason) from None
    with os.fdopen(descriptor, "rb") as file:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
            raise _RefusedError("it is not a regular file")
        if info.st_uid != os.geteuid():
            raise _RefusedError(f"it belongs to {user_name(info.st_uid)}")
        if info.st_mode & 0o022:
            raise _RefusedError("others may write to it")
        try:
            owner, entries = parse(file.read(), path, cleanups)
        except ValueError as error:
            raise _RefusedError(str(error)) from None
        # A number identifies a process in its own PID namespace alone; the lock works everywhere.
        if not try_lock(descriptor) or (owner and owner != Owner.me() and owner.lives()):
            yield f"process {owner.pid}" if owner else "a process", entries
            return
        yield "", entries
