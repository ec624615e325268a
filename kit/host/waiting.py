"""The wait for what a started process makes: a socket, a mount, a line in its log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds between two looks.
_PAUSE = 0.01


class NotReadyError(Exception):
    """The process has ended, or took too long: the message is its reason."""


def wait_for(find: Callable[[], T | None], ended: Callable[[], str], patience: float) -> T:
    """Return the first true value of ``find``. ``ended``: returns why it will never be true, or ''. Raises
    NotReadyError with that reason, or after ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while not (found := find()):
        if reason := ended():
            raise NotReadyError(reason)
        if time.monotonic() > deadline:
            raise NotReadyError(f"not ready after {patience:g} s")
        time.sleep(_PAUSE)
    return found
