"""Messages of a session in a guest or on a machine of a fleet: its events and its end. Each message is one line of
JSON, such as ``["alive", {}]``. Also the job that a host sends to a guest. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kit.core import errors
from kit.core.codec import UnreadableError, by_tag, decode_tagged, encode_tagged
from kit.core.errors import KitError, RunError
from kit.model.event import Event, FactsKnown
from kit.model.scenario import Scenario
from kit.model.session import Session
from kit.session.execute.materials import Materials

HEARTBEAT = 10.0  # seconds
#: Maximum bytes of a line. The thousands of tasks of a run take one or two million.
MOST_LINE = 16 << 20


@dataclass(frozen=True)
class GuestJob:
    """The data that a guest gets: a session with its samples so far, and everything that it needs."""

    session: Session
    scenarios: Mapping[str, Scenario]
    materials: Materials


@dataclass(frozen=True)
class Alive:
    """Sent every ``HEARTBEAT`` seconds, whatever happens: a hanging kernel sends nothing."""


@dataclass(frozen=True)
class Done:
    """The last message of a session that ended normally, with its state."""

    status: str
    known: FactsKnown

    @classmethod
    def by(cls, session: Session) -> Done:
        return cls(session.status, FactsKnown.of(session))


@dataclass(frozen=True)
class Failed:
    """The last message of a session that failed. ``kind``: the error's class."""

    kind: str
    message: str
    hint: str

    @classmethod
    def by(cls, error: KitError) -> Failed:
        return cls(type(error).__name__, error.message, error.hint)

    def error(self) -> KitError:
        """Return the same error on the host; a RunError if its class is not one of the user's errors."""
        kind = vars(errors).get(self.kind, RunError)
        error_type: type[KitError] = kind if isinstance(kind, type) and issubclass(kind, KitError) else RunError
        return error_type(self.message, self.hint)


Last = Done | Failed
Message = Event | Alive | Last

_KINDS: Mapping[str, type[Message]] = by_tag(Message)


def encode_message(message: Message) -> bytes:
    """Return the message as a line. A line break before it ends any other output on the device."""
    return b"\n" + encode_tagged(message) + b"\n"


def decode_line(line: bytes) -> Message | None:
    """Return the message of a line; None for noise of the device, including a cut message. Raises UnreadableError for
    an unknown message, or one with wrong fields."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return decode_tagged(_KINDS, message) if isinstance(message, list) else None


class MessageReader:
    """Splits the device's data, in pieces of any size, into messages."""

    def __init__(self) -> None:
        self._begun = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Return the messages that this piece completes. Raises UnreadableError, also for a line that is too long."""
        self._begun += data
        if len(self._begun) > MOST_LINE:
            raise UnreadableError(
                f"the guest sent more than {MOST_LINE >> 20} MiB in one line",
                "use one version of the kit on both sides",
            )
        if b"\n" not in data:  # each piece of a long message is scanned once
            return
        *lines, partial_line = self._begun.split(b"\n")
        self._begun = partial_line
        for line in lines:
            message = decode_line(bytes(line))
            if message is not None:
                yield message
