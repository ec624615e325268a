"""A worker in a process of its own, begun anew where it dies of a signal: its guard says so, and the next one tells the
scheduler, so that who measures hears why a machine was lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from kit.host.command import begin_copy

#: Seconds before the next one, of what dies again and again.
_REST = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def guarded(work: Callable[[str], None], tell: Callable[[str], None]) -> int:
    """Run ``work``, which is given how the process before it died, '' the first time. It returns in that process with 0
    or raises what it raises; here it returns the exit status. SIGINT and SIGTERM are passed on, and end it."""
    died = ""
    while True:
        reader, writer = os.pipe()
        # One that comes before the handlers stand would end the guard alone.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        child = begin_copy()
        if child == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            os.close(writer)
            threading.Thread(target=_end_with_guard, args=(reader,), daemon=True).start()
            work(died)
            return 0
        os.close(reader)
        with _passing_on(child) as asked:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(writer)
        if status >= 0 or asked:
            return status if status >= 0 else 128 - status
        died = f"killed by signal {-status} ({signal.strsignal(-status)}) at {time.strftime('%H:%M:%S')}"
        tell(f"the worker was {died}; it begins anew")
        time.sleep(_REST)


@contextmanager
def _passing_on(child: int) -> Iterator[list[int]]:
    """The signals that came."""
    asked: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        with suppress(ProcessLookupError):
            os.kill(child, number)

    before = [(number, signal.signal(number, pass_on)) for number in _SIGNALS]
    try:
        yield asked
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _end_with_guard(reader: int) -> None:
    """Where the guard is killed nobody would tell why this one dies, nor begin it anew."""
    os.read(reader, 1)
    os.kill(os.getpid(), signal.SIGTERM)
