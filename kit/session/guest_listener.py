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

from kit.core.codec import UnreadableError
from kit.core.errors import RunError
from kit.guest import Machine
from kit.host.command import Process
from kit.host.interrupt import interruptible
from kit.model.fact import HOST_CPU, HOST_KERNEL, MACHINE, WORKER, Fact
from kit.model.sample import Sample
from kit.model.session import DONE, FAILED, Session
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
from kit.session.runlog import last_lines

#: Of a session in a guest: runs, facts, characters of one, and of what is shown.
MOST_SAMPLES, MOST_FACTS, _LONGEST_FACT, _LONGEST = 10_000, 1_000, 1 << 16, 2_000
#: Lines of the console that an error quotes, of so many last ones that may be blank.
_LAST_LINES, _CONSOLE_LINES = 5, 50


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
                    return host.ended(message.session)
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
        lines = [line for line in last_lines(self._console, _CONSOLE_LINES) if line.strip()]
        return "\n  | ".join(["", *lines[-_LAST_LINES:]]) if lines else "its console is empty"


class _Host:
    """The host's side of the session: store and observer, told what the guest says. Whatever is root in the guest may
    say anything: it is taken at its word on its own runs, on facts and on arms that don't run, and on nothing else."""

    def __init__(self, session: Session, context: SessionContext, facts: list[Fact]) -> None:
        self._session = session
        self._context = context
        self._facts = facts
        self._samples = list(session.samples)
        self._arms = {*session.arms, *map(str, context.plan.arms)}
        self._last: Sample | None = None

    def keep(self, message: Kept) -> None:
        store, name = self._context.store, self._session.id
        match message:
            case Measured():
                self._last = self._logged_here(message.sample)
                self._check_run(self._last.arm, self._last.point)
                if len(self._samples) >= MOST_SAMPLES:
                    raise _refused(f"it says more than {MOST_SAMPLES} runs")
                self._samples.append(self._last)
                store.add_sample(name, self._last)
            case Flagged():
                self._check_run(message.arm, message.point)
                run = message.arm, message.point, message.block
                self._samples = [
                    replace(item, flags=message.flags)
                    if item.kind == "measured" and (item.arm, item.point, item.block) == run
                    else item
                    for item in self._samples
                ]
                store.set_flags(name, *run, message.flags)
            case Updated():
                store.update(self._with_news(message.session))
            case _:
                assert_never(message)

    def show(self, message: Shown) -> None:
        observer = self._context.observer
        match message:
            case Hello():
                observer.tell(f"the guest runs {message.kernel[:_LONGEST]}")
            case Alive():
                pass
            case Tell():
                observer.tell(message.text[:_LONGEST])
            case Planned():
                observer.planned(message.steps, message.done)
            case Extended():
                observer.extended(message.steps, message.reason[:_LONGEST])
            case Running():
                self._check_run(str(message.step.arm), message.step.point)
                observer.running(message.step, message.phase[:_LONGEST])
            case Finished():
                self._check_run(str(message.step.arm), message.step.point)
                if self._last:
                    observer.finished(message.step, self._last)
            case _:
                assert_never(message)

    def ended(self, session: Session) -> Session:
        """The session in the state that the guest says it came to. Raises UnreadableError where that is no end."""
        if session.status not in (DONE, FAILED):
            raise _refused(f"the session ended as {session.status[:60]!r}")
        return replace(self._with_news(session), status=session.status)

    def _with_news(self, session: Session) -> Session:
        """The session with facts and arms that don't run as the guest says them, and what only the host knows."""
        lengths = (len(key) + len(text) for key, text in session.facts.items())
        if len(session.facts) > MOST_FACTS or max(lengths, default=0) > _LONGEST_FACT:
            raise _refused("its facts are too many, or too long")
        if not {item.arm for item in session.not_run} <= self._arms | {item.arm for item in self._session.not_run}:
            raise _refused("an arm does not run that the session does not have")
        facts = {key: text for key, text in session.facts.items() if key != WORKER.key}
        known = replace(self._session, facts={**self._session.facts, **facts}, not_run=session.not_run)
        return replace(known.with_facts(self._facts), samples=tuple(self._samples))

    def _check_run(self, arm: str, point: str) -> None:
        if arm not in self._arms or point not in self._context.plan.points:
            raise _refused(f"a run of {arm[:60]!r} {point[:60]!r}, which the session does not have")

    def _logged_here(self, sample: Sample) -> Sample:
        """Its log is named by where the host will have it."""
        name = sample.log.rpartition("/")[2]
        log = str(self._context.paths.logs(self._session.id) / name) if name.endswith(".log") else ""
        return replace(sample, log=log)


def _refused(what: str) -> UnreadableError:
    return UnreadableError(f"the guest says what it may not: {what}", "what runs in it is not to be trusted")
