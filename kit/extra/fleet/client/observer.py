"""Shows several machines together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kit.model.event import Event, EventSink


class FleetObserver(EventSink, Protocol):
    """Shows events of several machines."""

    def machine(self, name: str) -> None:
        """Set the machine of the next events; '' for none."""


@dataclass(frozen=True)
class MachineEvents(EventSink):
    """Events of one machine, shown by ``observer``."""

    observer: FleetObserver
    name: str

    def take(self, event: Event) -> None:
        self.observer.machine(self.name)
        self.observer.take(event)
        self.observer.machine("")
