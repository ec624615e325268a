"""The wait for what a started process makes (a socket, a mount, a line in its log), and for errors that pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

#: Seconds between two looks.
_PAUSE = 0.01
#: Seconds between two attempts, and in which an engine ends its own work on a container.
_RETRY_PAUSE, _RETRY_PATIENCE = 0.1, 10


class NotReadyError(Exception):
    """The process has ended, or took too long: the message is its reason."""


def wait_for(find: Callable[[], T | None], ended: Callable[[], str], patience: float) -> T:
    """Return the first true value of ``find``. ``ended``: returns why it will never be true, or ''. Raises
    NotReadyError with that reason, or after ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while not (value := find()):
        if reason := ended():
            raise NotReadyError(reason)
        if time.monotonic() > deadline:
            raise NotReadyError(f"not ready after {patience:g} s")
        time.sleep(_PAUSE)
    return value


def retry(act: Callable[[], T], error: type[E], passes: Callable[[E], bool], patience: float = _RETRY_PATIENCE) -> T:
    """Return the result of ``act``, repeated while it raises an ``error`` that passes. Raises the last one after
    ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return act()
        except error as raised:
            if time.monotonic() > deadline or not passes(raised):
                raise
        time.sleep(_RETRY_PAUSE)
