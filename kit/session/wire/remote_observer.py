"""Sends the events of a session that runs for another machine: the messages of the guest's protocol."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

from kit.core.errors import KitError, RunError, said_by_system
from kit.model.event import Event, EventSink
from kit.model.session import Session
from kit.session.wire.messages import HEARTBEAT, Alive, Done, Failed, Message, encode_message


class Channel(EventSink):
    """Writes a session's events to an open file, for the machine that has its store and shows its progress."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._one_at_a_time = threading.Lock()

    def say(self, message: Message) -> None:
        data = encode_message(message)
        with self._one_at_a_time:
            while data:
                data = data[os.write(self._file, data) :]

    def beat(self) -> None:
        """Send heartbeats until nobody listens."""
        with suppress(OSError):
            while True:
                time.sleep(HEARTBEAT)
                self.say(Alive())

    def conclude(self, work: Callable[[], Session], broke_off: str, hint: str = "") -> None:
        """Send the result of ``work`` as the last message. ``broke_off``: the text for an unforeseen error, whose
        traceback nobody here would read."""
        try:
            self.say(Done.by(work()))
        except KitError as error:
            self.say(Failed.by(error))
        except Exception as error:
            traceback.print_exc()
            why = said_by_system(error) if isinstance(error, OSError) else repr(error)
            self.say(Failed.by(RunError(f"{broke_off}: {why}", hint)))

    def take(self, event: Event) -> None:
        self.say(event)
