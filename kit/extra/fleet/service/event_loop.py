"""Runs a scheduler or a worker in this process, until it is interrupted."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, Protocol


class _Server(Protocol):
    async def finished(self) -> Any: ...

    async def close(self, *, reason: str) -> Any: ...


def serve(make: Callable[[], Awaitable[_Server]], ready: Callable[[_Server], None]) -> bool:
    """Run the result of ``make`` until it ends; return True if SIGINT or SIGTERM ended it. ``ready`` receives it when
    it listens."""
    from tornado.ioloop import IOLoop

    loop = IOLoop()
    signals: list[int] = []

    async def run() -> None:
        server = await make()

        def ask(number: int, frame: FrameType | None) -> None:
            if not signals:
                loop.add_callback_from_signal(server.close, reason="interrupted")
            signals.append(number)

        before = [(number, signal.signal(number, ask)) for number in (signal.SIGINT, signal.SIGTERM)]
        try:
            ready(server)
            await server.finished()
        finally:
            for number, handler in before:
                signal.signal(number, handler)

    try:
        loop.run_sync(run)
    finally:
        loop.close(all_fds=True)
    return bool(signals)
