"""A look at a fleet, again and again over one connection, for a page that is asked for every few seconds."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from kit.core.errors import KitError
from kit.fleet.address import Address, security
from kit.fleet.client import Fleet, fleet_at
from kit.fleet.settings import prepare
from kit.model.member import MemberStatus

#: Seconds for which one look serves all that ask.
_FRESH = 1.0
#: Seconds for which a scheduler that is away is waited for: a page is asked for again.
_PATIENCE = 3.0


@dataclass(frozen=True)
class Sight:
    """``when``: Unix time. ``away``: why nothing could be seen, in one line; '' where it could."""

    when: float
    members: tuple[MemberStatus, ...] = ()
    away: str = ""


class Lookout:
    """Safe for threads."""

    def __init__(self, address: Address) -> None:
        """Raises MachineError where dask is not installed, UsageError where certificates are missing; connects to
        nobody yet."""
        prepare()
        security(address, "client")
        self._address = address
        self._lock = threading.Lock()
        self._connection = ExitStack()
        self._fleet: Fleet | None = None
        self._sight = Sight(0.0)

    def look(self) -> Sight:
        with self._lock:
            if not 0 <= time.time() - self._sight.when < _FRESH:
                self._sight = self._look()
            return self._sight

    def _look(self) -> Sight:
        try:
            if self._fleet is None:
                self._fleet = self._connection.enter_context(fleet_at(self._address, patience=_PATIENCE))
            return Sight(time.time(), self._fleet.status())
        except KitError as error:
            if self._fleet:
                # Dask looks for a lost scheduler for seconds before it lets go of the connection.
                threading.Thread(target=self._connection.pop_all().close, daemon=True).start()
                self._fleet = None
            return Sight(time.time(), away=f"{error.message}; {error.hint}" if error.hint else error.message)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._connection.close()
