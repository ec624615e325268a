"""What a machine is given of a session. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

from kit.core.codec import Count
from kit.model.session import Session

_ID = 40


@dataclass(frozen=True)
class Share:
    """``session``: as this machine's own store has it, without samples. ``blocks``: those that are made there; all
    where it is empty, and then the whole session is this machine's. ``of``: the id of the session that it is a part of,
    by which who asked for it has it in store; '' where that is the same."""

    session: Session
    blocks: tuple[Count, ...] = ()
    of: str = ""

    @property
    def name(self) -> str:
        """What is shown of it: ``kit show`` knows the id."""
        return f"{self.session.title} {self.of or self.session.id}"


@dataclass(frozen=True)
class Assignment:
    """A share with what the worker adds: where the kit keeps things for it. ``together``: others measure on the same
    machine at the same time, by their user's leave."""

    share: Share
    home: str
    together: bool


def local_session(session: Session, member: str) -> Session:
    """A session of several machines as one of them has it: each has its own part of it under a name of its own."""
    name = re.sub(r"[^A-Za-z0-9]", "", member)
    tail = f"{hashlib.sha256(member.encode()).hexdigest()[:4]}{name[: _ID - len(session.id) - 5]}"
    return replace(session, id=f"{session.id}-{tail}", samples=())
