"""When the kit may be interrupted: once, and in a session while it waits for what takes long, and nowhere else. An
exception between the making of a thing and the note of how it is undone, or in the midst of undoing it, would leave it
on the machine (the cases are in PEP 419)."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SAID = b"\nkit: interrupted: ends what is in hand\n"


@dataclass
class _Interrupts:
    """``held``: they wait for a window. ``windows``: blocks in which the main thread may be interrupted just now."""

    asked: bool = False
    raised: bool = False
    held: bool = False
    windows: int = 0

    def ask(self, number: int, frame: FrameType | None) -> None:
        """The first interrupt ends what goes on; further ones must not end its cleaning up."""
        if self.asked:
            return
        self.asked = True
        if self.windows or not self.held:
            self.interrupt()
        with suppress(OSError):  # who reads it was interrupted too: kit … 2>&1 | tee
            os.write(2, _SAID)

    def interrupt(self) -> None:
        self.raised = True
        raise KeyboardInterrupt

    def interrupt_if_due(self) -> None:
        if self.asked and not self.raised:
            self.interrupt()


_interrupts: _Interrupts | None = None


def take_interrupts() -> None:
    """In a process of the kit's own, until it ends: the first SIGINT or SIGTERM raises KeyboardInterrupt in the main
    thread, at once or where ``interrupts_held`` says; none does after it. Programs that are started then see them as
    ever: what is ignored by a handler is not ignored by them."""
    global _interrupts
    _interrupts = _Interrupts()
    for number in _SIGNALS:
        signal.signal(number, _interrupts.ask)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """SIGINT and SIGTERM wait for the next ``interruptible``, at the longest for the end of the block. Raises
    KeyboardInterrupt there. Only the main thread is ever interrupted: in others this changes nothing."""
    if not _in_main_thread() or (_interrupts and _interrupts.held):
        yield
        return
    with _taken() as taken:
        taken.held = True
        try:
            yield
        finally:
            taken.held = False
    taken.interrupt_if_due()


@contextmanager
def _taken() -> Iterator[_Interrupts]:
    """Those of this process; in one that is another's, for the block, whose handlers are there again after it."""
    global _interrupts
    if _interrupts:
        yield _interrupts
        return
    _interrupts = taken = _Interrupts()
    before = [(number, signal.signal(number, taken.ask)) for number in _SIGNALS]
    try:
        yield taken
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        _interrupts = None


@contextmanager
def interruptible() -> Iterator[None]:
    """The block may end by KeyboardInterrupt at any point: it makes nothing that must be undone by name."""
    taken = _interrupts if _in_main_thread() else None
    if taken is None:
        yield
        return
    taken.windows += 1
    try:
        taken.interrupt_if_due()
        yield
    finally:
        taken.windows -= 1


def checkpoint() -> None:
    """A point at which nothing is held that would not be undone."""
    with interruptible():
        pass


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
