"""Decides when the kit may be interrupted: once, and in a session only during long waits.

An exception between the making of a thing and its journal entry would leave the thing on the machine. So would an
exception during an undo (PEP 419 has the cases)."""

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
    """``held``: interrupts wait for a window. ``windows``: number of open blocks in which the main thread may be
    interrupted."""

    asked: bool = False
    raised: bool = False
    held: bool = False
    windows: int = 0

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Raise on the first interrupt; further ones must not end the clean-up."""
        if self.asked:
            return
        self.asked = True
        if self.windows or not self.held:
            self.interrupt()
        with suppress(OSError):  # the reader was interrupted too: kit … 2>&1 | tee
            os.write(2, _SAID)

    def interrupt(self) -> None:
        self.raised = True
        raise KeyboardInterrupt

    def interrupt_if_due(self) -> None:
        if self.asked and not self.raised:
            self.interrupt()


_interrupts: _Interrupts | None = None


def take_interrupts() -> None:
    """Handle interrupts in a process of the kit's own, until the process ends. The first SIGINT or SIGTERM raises
    KeyboardInterrupt in the main thread, at once or where ``interrupts_held`` permits; later ones do nothing. Started
    programs receive signals as usual: a handler's ignored signal is not ignored by them."""
    global _interrupts
    _interrupts = _Interrupts()
    for number in _SIGNALS:
        signal.signal(number, _interrupts.ask)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Delay SIGINT and SIGTERM until the next ``interruptible``, at the latest until the end of the block. Raises
    KeyboardInterrupt there. Only the main thread is interrupted: in other threads this has no effect."""
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
    """Yield the active interrupts of this process. If there are none, install handlers, and restore the former ones at
    the end."""
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
    """Permit KeyboardInterrupt at any point of the block: the block makes nothing that must be undone by name."""
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
    """Permit an interrupt at this point, where everything held is undone."""
    with interruptible():
        pass


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
