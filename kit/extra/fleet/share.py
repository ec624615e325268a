"""The share of a session that a machine is given. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

from kit.core.codec import Count
from kit.model.session import Session

_ID = 40


@dataclass(frozen=True)
class Share:
    """``session``: as this machine's own store has it, without samples. ``assigned``: the rounds made there; empty:
    all, and the whole session is this machine's. ``of``: the id of the original session in the client's store; '' if
    both ids are equal."""

    session: Session
    assigned: tuple[Count, ...] = ()
    of: str = ""

    @property
    def name(self) -> str:
        """Return the id that is shown: ``kit show`` knows it."""
        return f"{self.session.title} {self.of or self.session.id}"


@dataclass(frozen=True)
class Assignment:
    """A share with the worker's additions: the directories of the kit's data there. ``together``: others may measure on
    the same machine at the same time, by their user's permission."""

    share: Share
    home: str
    together: bool


def local_session(session: Session, member: str) -> Session:
    """Return one machine's part of a shared session, under a name of its own."""
    name = re.sub(r"[^A-Za-z0-9]", "", member)
    tail = f"{hashlib.sha256(member.encode()).hexdigest()[:4]}{name[: _ID - len(session.id) - 5]}"
    return replace(session, id=f"{session.id}-{tail}", samples=())
