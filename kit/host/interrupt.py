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
    requested: bool = False
    raised: bool = False
    delayed: bool = False  # interrupts wait for a window
    windows: int = 0  # open blocks in which the main thread may be interrupted

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Raise on the first interrupt; further ones must not end the clean-up."""
        if self.requested:
            return
        self.requested = True
        if self.windows or not self.delayed:
            self.interrupt()
        with suppress(OSError):  # the reader was interrupted too: kit … 2>&1 | tee
            os.write(2, _SAID)

    def interrupt(self) -> None:
        self.raised = True
        raise KeyboardInterrupt

    def interrupt_if_due(self) -> None:
        if self.requested and not self.raised:
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
    if not _in_main_thread() or (_interrupts and _interrupts.delayed):
        yield
        return
    with _activated() as active:
        active.delayed = True
        try:
            yield
        finally:
            active.delayed = False
    active.interrupt_if_due()


@contextmanager
def _activated() -> Iterator[_Interrupts]:
    """Yield the active interrupts of this process. If there are none, install handlers, and restore the former ones at
    the end."""
    global _interrupts
    if _interrupts:
        yield _interrupts
        return
    _interrupts = active = _Interrupts()
    before = [(number, signal.signal(number, active.ask)) for number in _SIGNALS]
    try:
        yield active
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        _interrupts = None


@contextmanager
def interruptible() -> Iterator[None]:
    """Permit KeyboardInterrupt at any point of the block: the block makes nothing that must be undone by name."""
    active = _interrupts if _in_main_thread() else None
    if active is None:
        yield
        return
    active.windows += 1
    try:
        active.interrupt_if_due()
        yield
    finally:
        active.windows -= 1


def checkpoint() -> None:
    """Permit an interrupt at this point, where everything held is undone."""
    with interruptible():
        pass


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
