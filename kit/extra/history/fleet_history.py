"""Earlier results of a fleet's machines, from a sample of each class large enough to show changes of most machines.
Reading all sessions of a thousand machines takes too long, and the newest thousand are one of each machine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from kit.analysis.session.entry import Entry
from kit.model.fact import SEVERAL, WORKER
from kit.model.machine import class_of
from kit.model.session import DONE
from kit.store.schema.tables import machine_of
from kit.store.session_query import SessionFilter
from kit.store.store import Store

#: Machines in the sample, least number of each class, and sessions of all of them.
_MACHINES, _LEAST, _SESSIONS = 40, 5, 2000


@dataclass(frozen=True)
class Figure:
    """The figure to follow; ``phase``: '' for the whole run."""

    title: str
    arm: str
    phase: str = ""
    metric: str = "real"


@dataclass(frozen=True)
class FleetPast:
    """Past of a fleet. ``entries``: oldest first. ``drawn``: number of machines of each class that was sampled."""

    entries: tuple[Entry, ...]
    drawn: Mapping[str, int]
    machines: int = 0

    @property
    def there(self) -> int:
        """Return the number of machines from which these were drawn, 0 if they are all."""
        return self.machines if self.drawn else 0


def find_fleet_past(store: Store, figure: Figure, own: str = "", machine_class: str = "") -> FleetPast:
    """Return the past of machines of that class, or of all. The sample is the same each time, and includes the id
    ``own``."""
    classes: dict[str, list[str]] = {}
    for head in store.newest_of_each(SessionFilter(figure.title, figure.arm, status=DONE), 1):
        worker, name = WORKER.text(head.facts), class_of(head.facts)
        if worker and SEVERAL not in worker and machine_class in ("", name):
            classes.setdefault(name, []).append(machine_of(head.facts))
    most = max(_LEAST, _MACHINES // max(1, len(classes)))
    chosen: list[str] = []
    for machines in classes.values():
        chosen += sorted(machines, key=lambda machine: (machine != own, lot(machine)))[:most]
    if not chosen:
        return FleetPast((), {})
    selection = SessionFilter(figure.title, figure.arm, status=DONE, machines=tuple(chosen))
    listed = store.newest_of_each(selection, _SESSIONS)
    drawn = {name: len(machines) for name, machines in classes.items() if len(machines) > most}
    entries = store.entries(listed, (figure.arm,), figure.phase, figure.metric)
    return FleetPast(entries, drawn, sum(map(len, classes.values())))


def lot(machine: str) -> str:
    """Return the key that draws the same machines each time."""
    return hashlib.sha256(machine.encode()).hexdigest()
