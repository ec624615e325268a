"""How a session that is run for somebody else says what goes on: the messages of the guest's protocol."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

from kit.core.errors import KitError, RunError, said_by_system
from kit.model.plan import PlanStep
from kit.model.sample import Sample
from kit.model.session import Session
from kit.session.context import Keeper
from kit.session.guest_protocol import (
    HEARTBEAT,
    Alive,
    Done,
    Extended,
    Failed,
    Finished,
    Flagged,
    Measured,
    Message,
    Planned,
    Running,
    Tell,
    Updated,
    encode_message,
)


class Channel:
    """Observer and store of a session that are elsewhere: what they are told is written to an open file."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._one_at_a_time = threading.Lock()

    def say(self, message: Message) -> None:
        data = encode_message(message)
        with self._one_at_a_time:
            while data:
                data = data[os.write(self._file, data) :]

    def beat(self) -> None:
        """Say that the session is alive, until nobody listens."""
        with suppress(OSError):
            while True:
                time.sleep(HEARTBEAT)
                self.say(Alive())

    def conclude(self, work: Callable[[], Session], broke_off: str, hint: str = "") -> None:
        """Say what ``work`` made of the session, which is the last message. ``broke_off``: what to call an end that
        nobody foresaw; nobody has eyes for its traceback here."""
        try:
            self.say(Done(work()))
        except KitError as error:
            self.say(Failed.by(error))
        except Exception as error:
            traceback.print_exc()
            why = said_by_system(error) if isinstance(error, OSError) else repr(error)
            self.say(Failed.by(RunError(f"{broke_off}: {why}", hint)))

    def began(self, session: Session) -> None:
        """Whoever sent the session knows."""

    def tell(self, text: str) -> None:
        self.say(Tell(text))

    def planned(self, steps: int, done: int) -> None:
        self.say(Planned(steps, done))

    def extended(self, steps: int, reason: str) -> None:
        self.say(Extended(steps, reason))

    def running(self, step: PlanStep, phase: str) -> None:
        self.say(Running(step, phase))

    def finished(self, step: PlanStep, sample: Sample) -> None:
        self.say(Finished(step))

    def update(self, session: Session) -> None:
        self.say(Updated(session))

    def add_sample(self, session_id: str, *samples: Sample) -> None:
        for sample in samples:
            self.say(Measured(sample))

    def set_flags(self, session_id: str, arm: str, point: str, block: int, flags: str) -> None:
        self.say(Flagged(arm, point, block, flags))


class Relayed:
    """A keeper of which somebody else is told everything, once it has it."""

    def __init__(self, keeper: Keeper, channel: Channel) -> None:
        self._both: tuple[Keeper, Keeper] = (keeper, channel)

    def update(self, session: Session) -> None:
        for keeper in self._both:
            keeper.update(session)

    def add_sample(self, session_id: str, *samples: Sample) -> None:
        for keeper in self._both:
            keeper.add_sample(session_id, *samples)

    def set_flags(self, session_id: str, arm: str, point: str, block: int, flags: str) -> None:
        for keeper in self._both:
            keeper.set_flags(session_id, arm, point, block, flags)
