"""Runs a worker in a process of its own, and restarts it after a fatal signal. The guard process reports the signal.
The next worker tells the scheduler, so the user learns why a machine was lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from kit.host.command import begin_copy

#: Seconds before the next restart of a worker that dies repeatedly.
_REST = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def guarded(work: Callable[[str], None], tell: Callable[[str], None]) -> int:
    """Run ``work``, which gets the previous process's cause of death, '' the first time. In that process it returns 0
    or raises the errors of ``work``; here it returns the exit status. SIGINT and SIGTERM are passed on, and end it."""
    died = ""
    while True:
        reader, writer = os.pipe()
        # A signal before the handlers are set would end the guard alone.
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        child = begin_copy()
        if child == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
            os.close(writer)
            threading.Thread(target=_end_with_guard, args=(reader,), daemon=True).start()
            work(died)
            return 0
        os.close(reader)
        with _passing_on(child) as signals:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(writer)
        if status >= 0 or signals:
            return status if status >= 0 else 128 - status
        died = f"killed by signal {-status} ({signal.strsignal(-status)}) at {time.strftime('%H:%M:%S')}"
        tell(f"the worker was {died}; it restarts")
        time.sleep(_REST)


@contextmanager
def _passing_on(child: int) -> Iterator[list[int]]:
    """The signals that came."""
    signals: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        with suppress(ProcessLookupError):
            os.kill(child, number)

    before = [(number, signal.signal(number, pass_on)) for number in _SIGNALS]
    try:
        yield signals
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _end_with_guard(reader: int) -> None:
    """A killed guard could neither report this worker's death nor restart it."""
    os.read(reader, 1)
    os.kill(os.getpid(), signal.SIGTERM)
