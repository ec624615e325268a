"""Caches the status of a fleet over one connection, for a page that is requested every few seconds."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from kit.core.errors import KitError
from kit.extra.fleet.address import Address, security
from kit.extra.fleet.client.client import Fleet, fleet_at
from kit.extra.fleet.settings import prepare
from kit.model.machine import MemberStatus

#: Seconds for which one status serves all requests.
_FRESH = 1.0
#: Seconds to wait for an absent scheduler: a page is requested again.
_PATIENCE = 3.0


@dataclass(frozen=True)
class Snapshot:
    """``when``: Unix time. ``away``: why the status is missing, in one line; '' if it is available."""

    when: float
    members: tuple[MemberStatus, ...] = ()
    away: str = ""


class StatusCache:
    """Thread-safe."""

    def __init__(self, address: Address) -> None:
        """Connects to nobody yet. Raises MachineError if dask is not installed, UsageError if certificates are
        missing."""
        prepare()
        security(address, "client")
        self._address = address
        self._lock = threading.Lock()
        self._connection = ExitStack()
        self._fleet: Fleet | None = None
        self._snapshot = Snapshot(0.0)
        self._looked: float | None = None  # when, on the monotonic clock

    def look(self) -> Snapshot:
        with self._lock:
            if self._looked is None or time.monotonic() - self._looked >= _FRESH:
                self._snapshot = self._look()
                self._looked = time.monotonic()
            return self._snapshot

    def _look(self) -> Snapshot:
        try:
            if self._fleet is None:
                self._fleet = self._connection.enter_context(fleet_at(self._address, patience=_PATIENCE))
            return Snapshot(time.time(), self._fleet.status())
        except KitError as error:
            if self._fleet:
                # Dask looks for a lost scheduler for seconds before it closes the connection.
                threading.Thread(target=self._connection.pop_all().close, daemon=True).start()
                self._fleet = None
            return Snapshot(time.time(), away=f"{error.message}; {error.hint}" if error.hint else error.message)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._connection.close()
