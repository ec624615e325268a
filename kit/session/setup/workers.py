"""Threads that prepare several things in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from threading import Event, Lock

from kit.host.interrupt import interruptible

Step = Callable[[], None]
_AT_ONCE = 8


class Workers:
    """Threads that live until ``close``: a program that a thread has started dies with it, by the parent-death signal.
    All threads share the mounts of the thread that submits first."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def do(self, tasks: Sequence[Sequence[Step]]) -> None:
        """Run all tasks in parallel, each a sequence of steps; run a single task in this thread. If one raises, or this
        thread is interrupted, no further step begins, and running steps are awaited."""
        if len(tasks) < 2:
            _go(Event(), [step for steps in tasks for step in steps])
            return
        self._pool = self._pool or ThreadPoolExecutor(_AT_ONCE, "ready")
        ending = Event()
        futures = [self._pool.submit(partial(_go, ending, steps)) for steps in tasks]
        try:
            for task in futures:
                with interruptible():
                    task.result()
        finally:
            ending.set()
            wait(futures)

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown()


def _go(ending: Event, steps: Sequence[Step]) -> None:
    for step in steps:
        if ending.is_set():
            return
        step()


def one_at_a_time(tell: Callable[[str], None]) -> Callable[[str], None]:
    """Return the function for use by several threads: each sentence is written completely before the next."""
    lock = Lock()

    def told(text: str) -> None:
        with lock:
            tell(text)

    return told
