"""What a fleet's machines found before: of so many of each class that what most of them saw can be told. A farm of a
thousand has more sessions than anybody waits for, and of its newest thousand each machine one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from kit.analysis.history import SEVERAL, Entry
from kit.model.fact import WORKER
from kit.model.machine_class import class_of
from kit.model.session import DONE
from kit.store.heads import Wanted
from kit.store.schema import machine_of
from kit.store.store import Store

#: Machines that are looked at, and of each class at least; sessions of all of them.
_MACHINES, _LEAST, _SESSIONS = 40, 5, 2000


@dataclass(frozen=True)
class Figure:
    """What is followed; ``phase``: '' for the whole run."""

    title: str
    arm: str
    phase: str = ""
    metric: str = "real"


@dataclass(frozen=True)
class FleetPast:
    """``entries``: oldest first. ``drawn``: how many machines there are of each class of which not all were looked
    at."""

    entries: tuple[Entry, ...]
    drawn: Mapping[str, int]
    machines: int = 0

    @property
    def there(self) -> int:
        """Of how many machines they were drawn, 0 where they are all."""
        return self.machines if self.drawn else 0


def find_fleet_past(store: Store, figure: Figure, own: str = "", machine_class: str = "") -> FleetPast:
    """Of machines of that class, or of all. The same machines are drawn each time, that of the id ``own`` with them."""
    classes: dict[str, list[str]] = {}
    for head in store.newest_of_each(Wanted(figure.title, figure.arm, status=DONE), 1):
        worker, name = WORKER.text(head.facts), class_of(head.facts)
        if worker and SEVERAL not in worker and machine_class in ("", name):
            classes.setdefault(name, []).append(machine_of(head.facts))
    most = max(_LEAST, _MACHINES // max(1, len(classes)))
    chosen: list[str] = []
    for machines in classes.values():
        chosen += sorted(machines, key=lambda machine: (machine != own, _lot(machine)))[:most]
    if not chosen:
        return FleetPast((), {})
    wanted = Wanted(figure.title, figure.arm, status=DONE, machines=tuple(chosen))
    listed = store.newest_of_each(wanted, _SESSIONS)
    drawn = {name: len(machines) for name, machines in classes.items() if len(machines) > most}
    entries = store.entries(listed, (figure.arm,), figure.phase, figure.metric)
    return FleetPast(entries, drawn, sum(map(len, classes.values())))


def _lot(machine: str) -> str:
    return hashlib.sha256(machine.encode()).hexdigest()
