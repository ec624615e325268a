"""When a session may be interrupted: while it waits for what takes long, and nowhere else. An exception between the
making of a thing and the note of how it is undone, or in the midst of undoing it, would leave it on the machine (the
cases are in PEP 419)."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SAID = b"\nkit: interrupted: ends what is in hand\n"


@dataclass
class _Held:
    """``windows``: blocks in which the main thread may be interrupted just now."""

    asked: bool = False
    raised: bool = False
    windows: int = 0

    def ask(self, number: int, frame: FrameType | None) -> None:
        """The first interrupt ends the session; further ones must not end its cleaning up."""
        if self.asked:
            return
        self.asked = True
        if self.windows:
            self.interrupt()
        os.write(2, _SAID)

    def interrupt(self) -> None:
        self.raised = True
        raise KeyboardInterrupt

    @property
    def due(self) -> bool:
        return self.asked and not self.raised


_held: _Held | None = None


@contextmanager
def interrupts_held() -> Iterator[None]:
    """SIGINT and SIGTERM wait for the next ``interruptible``, at the longest for the end of the block. Raises
    KeyboardInterrupt there. Only the main thread is ever interrupted: in others this changes nothing."""
    global _held
    if _held or not _in_main_thread():
        yield
        return
    _held = held = _Held()
    before = [(number, signal.signal(number, held.ask)) for number in _SIGNALS]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        _held = None
    if held.due:
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """The block may end by KeyboardInterrupt at any point: it makes nothing that must be undone by name."""
    held = _held if _in_main_thread() else None
    if held is None:
        yield
        return
    held.windows += 1
    try:
        if held.due:
            held.interrupt()
        yield
    finally:
        held.windows -= 1


def checkpoint() -> None:
    """A point at which nothing is held that would not be undone."""
    with interruptible():
        pass


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
