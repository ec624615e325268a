"""Other machines in which a session runs whole, as guests are: an extra brings them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kit.core.errors import UsageError
from kit.extensions import added
from kit.model.arm import Arm
from kit.model.session import Request, Session
from kit.session.measure.context import MachineLease
from kit.session.prepared import SessionContext


class Place(Protocol):
    """A machine for one session."""

    @property
    def kind(self) -> str: ...

    def cores(self, wanted: int) -> int:
        """Return how many cores it has, if so many are wanted."""

    def visit(self, session: Session, context: SessionContext, lease: MachineLease, materials: Any) -> Session:
        """Run the session there; return it in its final state. ``materials``: of kit.session.execute.materials. Raises
        KitError, KeyboardInterrupt."""


@dataclass(frozen=True)
class Places:
    """What the core asks of the extra."""

    #: Returns the request's place, by the directory of caches and the receiver of messages. Raises UsageError,
    #: MachineError.
    find: Callable[[Request, Path, Callable[[str], None]], Place]
    #: Returns the cores that the workload would find, of as many, without test boots. Raises UsageError.
    cores: Callable[[Request, int], int]
    #: Returns lines on what has to be made before such arms run there.
    ahead: Callable[[Request, Sequence[Arm], Path], Sequence[str]]


def find_places() -> Places:
    """Raises UsageError if no extra has any."""
    places: Places | None = next(added("places"), None)
    if places:
        return places
    raise UsageError("this kit has no guests", "leave out --guest and --kernel")
