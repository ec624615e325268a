"""The host's side of the conversation with a guest: each sample is stored on the host as soon as it exists."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from kit.core.errors import RunError
from kit.extra.guest import Machine
from kit.host.command import Process
from kit.host.interrupt import interruptible
from kit.model.event import FactsKnown
from kit.model.fact import HOST_CPU, HOST_KERNEL, MACHINE, WORKER, Fact, stored
from kit.model.session import DONE, FAILED, Session
from kit.session.measure.phase_log import last_lines
from kit.session.prepared import SessionContext
from kit.session.wire.claims import Bounds
from kit.session.wire.messages import Alive, Done, Failed, Message, MessageReader
from kit.session.wire.remote_session import RemoteSession

#: Lines of the console that an error quotes, taken from the last N lines, which may be blank.
_LAST_LINES, _CONSOLE_LINES = 5, 50


class Guest:
    def __init__(self, process: Process, channel: int, console: Path, patience: float) -> None:
        self._process = process
        self._channel = channel
        self._console = console
        self._patience = patience

    def listen(self, session: Session, context: SessionContext, machine: Machine) -> Session:
        """Follow the guest's messages until it is done. Raises KitError: the guest's own error, or its death."""
        arms = {*session.arms, *map(str, context.prepared.plan.arms), *(not_run.arm for not_run in session.not_run)}
        remote = RemoteSession(
            session,
            Bounds("the guest", arms, context.prepared.plan.points),
            context.events,
            partial(_logged_here, context.paths.logs(session.id)),
            partial(_known, session, here=self._facts(machine, context)),
        )
        for message in self._messages():
            match message:
                case Failed():
                    error = message.error()
                    error.hint = error.hint or self._see_console
                    raise error
                case Done():
                    return remote.end(message, (DONE, FAILED))
                case Alive():
                    pass
                case _:
                    remote.take(message)
        raise RunError(f"the guest ended early: {self._last_words()}", self._see_console)

    @property
    def _see_console(self) -> str:
        return f"see its console: {self._console}"

    def _facts(self, machine: Machine, context: SessionContext) -> list[Fact]:
        host = context.host
        here = [HOST_KERNEL.fact(host.kernel), HOST_CPU.fact(host.cpu), MACHINE.fact(host.machine)]
        return [*machine.facts(), *here]

    def _messages(self) -> Iterator[Message]:
        """Yield the guest's messages until they end. Raises RunError if it falls silent; UnreadableError."""
        lines = MessageReader()
        deadline = time.monotonic() + self._patience
        while True:
            with interruptible():
                ready, _, _ = select.select([self._channel], [], [], 0.5)
            chunk = os.read(self._channel, 1 << 16) if ready else None
            if chunk == b"" or (chunk is None and self._process.poll() is not None):
                return
            if chunk is None:
                if time.monotonic() > deadline:
                    reason = f"no message from the guest for {self._patience:.0f} s, it hangs: {self._last_words()}"
                    raise RunError(reason, self._see_console)
                continue
            for message in lines.feed(chunk):
                yield message
                deadline = time.monotonic() + self._patience

    def _last_words(self) -> str:
        lines = [line for line in last_lines(self._console, _CONSOLE_LINES) if line.strip()]
        return "\n  | ".join(["", *lines[-_LAST_LINES:]]) if lines else "its console is empty"


def _known(session: Session, message: FactsKnown, here: Iterable[Fact]) -> FactsKnown:
    """Return the guest's facts, with those that only the host knows."""
    facts = {key: text for key, text in message.facts.items() if key != WORKER.key}
    return replace(message, facts={**session.facts, **facts, **stored(here)})


def _logged_here(logs: Path, log: str) -> str:
    """Return the path of a log on the host."""
    name = log.rpartition("/")[2]
    return str(logs / name) if name.endswith(".log") else ""
