"""The host's side of the conversation with a guest: each sample is in the host's store as soon as it exists, whatever
becomes of the guest."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from kit.core.errors import RunError
from kit.guest import Machine
from kit.host.command import Process
from kit.host.interrupt import interruptible
from kit.model.fact import HOST_CPU, HOST_KERNEL, MACHINE, Fact
from kit.model.sample import Sample
from kit.model.session import Session
from kit.session.guest_protocol import (
    Alive,
    Done,
    Extended,
    Failed,
    Finished,
    Flagged,
    Hello,
    Kept,
    Measured,
    Message,
    MessageReader,
    Planned,
    Running,
    Shown,
    Tell,
    Updated,
)
from kit.session.local import SessionContext

#: Where the guest has what the host keeps in its data directory.
_DATA = "/kit/data"
_LAST_LINES = 5


class Guest:
    def __init__(self, process: Process, channel: int, console: Path, patience: float) -> None:
        self._process = process
        self._channel = channel
        self._console = console
        self._patience = patience

    def listen(self, session: Session, context: SessionContext, machine: Machine) -> Session:
        """Do what the guest says until it is done. Raises KitError: the guest's own, or that it has died."""
        host = _Host(session, context, self._facts(machine, context))
        for message in self._messages():
            match message:
                case Failed():
                    error = message.error()
                    error.hint = error.hint or self._see_console
                    raise error
                case Done():
                    return host.mended(message.session)
                case Measured() | Flagged() | Updated():
                    host.keep(message)
                case _:
                    host.show(message)
        raise RunError(f"the guest ended early: {self._last_words()}", self._see_console)

    @property
    def _see_console(self) -> str:
        return f"see its console: {self._console}"

    def _facts(self, machine: Machine, context: SessionContext) -> list[Fact]:
        host = context.host
        here = [HOST_KERNEL.fact(host.kernel), HOST_CPU.fact(host.cpu), MACHINE.fact(host.machine)]
        return [*machine.facts(), *here]

    def _messages(self) -> Iterator[Message]:
        """What it says, until it says no more. Raises RunError where it falls silent; UnreadableError."""
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
                    said = f"the guest has said nothing for {self._patience:.0f} s, it hangs: {self._last_words()}"
                    raise RunError(said, self._see_console)
                continue
            for message in lines.feed(chunk):
                yield message
                deadline = time.monotonic() + self._patience

    def _last_words(self) -> str:
        lines = [line for line in self._console.read_text(errors="replace").splitlines() if line.strip()]
        return "\n  | ".join(["", *lines[-_LAST_LINES:]]) if lines else "its console is empty"


class _Host:
    """The host's side of the session: store and observer, told what the guest says."""

    def __init__(self, session: Session, context: SessionContext, facts: list[Fact]) -> None:
        self._session = session
        self._context = context
        self._facts = facts
        self._last: Sample | None = None

    def keep(self, message: Kept) -> None:
        store, name = self._context.store, self._session.id
        match message:
            case Measured():
                self._last = self._logged_here(message.sample)
                store.add_sample(name, self._last)
            case Flagged():
                store.set_flags(name, message.arm, message.point, message.block, message.flags)
            case Updated():
                store.update(self.mended(message.session))
            case _:
                assert_never(message)

    def show(self, message: Shown) -> None:
        observer = self._context.observer
        match message:
            case Hello():
                observer.tell(f"the guest runs {message.kernel}")
            case Alive():
                pass
            case Tell():
                observer.tell(message.text)
            case Planned():
                observer.planned(message.steps, message.done)
            case Extended():
                observer.extended(message.steps, message.reason)
            case Running():
                observer.running(message.step, message.phase)
            case Finished():
                if self._last:
                    observer.finished(message.step, self._last)
            case _:
                assert_never(message)

    def mended(self, session: Session) -> Session:
        """With what only the host knows."""
        samples = tuple(map(self._logged_here, session.samples))
        return replace(session.with_facts(self._facts), samples=samples)

    def _logged_here(self, sample: Sample) -> Sample:
        """Its log is named by where the host will have it; those of an earlier start are named so already."""
        if not sample.log.startswith(f"{_DATA}/"):
            return sample
        return replace(sample, log=f"{self._context.paths.data}{sample.log.removeprefix(_DATA)}")
