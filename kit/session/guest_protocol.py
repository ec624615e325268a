"""What host and guest say to each other: the host sends one errand, the guest tells what comes of it, one message per
line of JSON, ``["tell", {"text": "…"}]``. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from kit.core import errors
from kit.core.codec import Count, UnreadableError, decode, encode
from kit.core.errors import KitError, RunError
from kit.model.plan import PlanStep
from kit.model.sample import Sample
from kit.model.scenario import Scenario
from kit.model.session import Session
from kit.session.local import Materials

HEARTBEAT = 10.0  # seconds
#: Bytes of a line at most. A run's thousands of tasks take one or two millions.
MOST_LINE = 16 << 20


@dataclass(frozen=True)
class Errand:
    """What a guest is sent: a session, whose samples are those that it has already, and all that it needs."""

    session: Session
    scenarios: Mapping[str, Scenario]
    materials: Materials


@dataclass(frozen=True)
class Hello:
    """The guest has booted."""

    kernel: str


@dataclass(frozen=True)
class Alive:
    """Said every ``HEARTBEAT`` seconds, whatever goes on: a kernel that hangs says nothing."""


@dataclass(frozen=True)
class Tell:
    text: str


@dataclass(frozen=True)
class Planned:
    steps: Count
    done: Count


@dataclass(frozen=True)
class Extended:
    steps: Count
    reason: str


@dataclass(frozen=True)
class Running:
    step: PlanStep
    phase: str


@dataclass(frozen=True)
class Measured:
    """To be stored at once."""

    sample: Sample


@dataclass(frozen=True)
class Finished:
    """The run is over whose sample came last."""

    step: PlanStep


@dataclass(frozen=True)
class Flagged:
    arm: str
    point: str
    block: Count
    flags: str


@dataclass(frozen=True)
class Updated:
    """New facts, or arms that don't run."""

    session: Session


@dataclass(frozen=True)
class Done:
    """The last message of a session that came to its end, with the state that it is in."""

    session: Session


@dataclass(frozen=True)
class Failed:
    """The last message of one that did not. ``kind``: the error's class."""

    kind: str
    message: str
    hint: str

    @classmethod
    def by(cls, error: KitError) -> Failed:
        return cls(type(error).__name__, error.message, error.hint)

    def error(self) -> KitError:
        """The same error on the host; a RunError where its class is none of the user's errors."""
        kind = vars(errors).get(self.kind, RunError)
        known: type[KitError] = kind if isinstance(kind, type) and issubclass(kind, KitError) else RunError
        return known(self.message, self.hint)


#: What concerns the store, what the observer, and what ends it.
Kept = Measured | Flagged | Updated
Shown = Hello | Alive | Tell | Planned | Extended | Running | Finished
Last = Done | Failed
Message = Kept | Shown | Last

_KINDS: Mapping[str, type[Message]] = {kind.__name__.lower(): kind for kind in get_args(Message)}


def encode_message(message: Message) -> bytes:
    """A line. One more before it ends whatever else was written to the device."""
    return b"\n" + json.dumps([type(message).__name__.lower(), encode(message)]).encode() + b"\n"


def decode_line(line: bytes) -> Message | None:
    """None for what is no message but the device's noise, a message that was cut among it. Raises UnreadableError for
    one that this kit does not know, or that is not as it says them."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, list):
        return None
    match said:
        case [str(name), dict(values)] if name in _KINDS:
            return decode(_KINDS[name], values)
    raise UnreadableError(f"the guest says what this kit does not know: {line[:60]!r}", "made by another kit?")


class MessageReader:
    """Messages of what comes from the device, in whichever pieces it comes."""

    def __init__(self) -> None:
        self._begun = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Those that this completes. Raises UnreadableError, also for a line that is too long."""
        self._begun += data
        if len(self._begun) > MOST_LINE:
            raise UnreadableError(f"the guest says more than {MOST_LINE >> 20} MiB in one line", "made by another kit?")
        if b"\n" not in data:  # of a large one that comes in many pieces each is looked at once
            return
        *lines, begun = self._begun.split(b"\n")
        self._begun = begun
        for line in lines:
            message = decode_line(bytes(line))
            if message is not None:
                yield message
