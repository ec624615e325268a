"""A change that several machines saw, or one: whether it is the machine's, or comes with what the machines of a class
have in common, the driver or the kernel for example. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kit.analysis.changepoint import CONFIRM, Change, Track, find_changes
from kit.analysis.history import SEVERAL, Entry, split
from kit.model.machine_class import class_of

#: Whose a change is. Where some changed and neither most nor one alone, what they have in common may tell.
MACHINES, COMMON, SOME, UNTOLD = "the machine's", "common", "some machines'", "not told"
#: So many machines must have been watched before one of them can be told from all.
LEAST = 3
_DAY = 86400.0


@dataclass(frozen=True)
class MachineChange:
    """``between``: the sessions, in Unix time, between which it lies; a change point may be one session off."""

    machine: str
    session: str
    change: Change
    between: tuple[float, float]


@dataclass(frozen=True)
class CommonChange:
    """Confirmed changes of the same sign at the same time on machines of a class. ``watched``: how many machines of it
    have sessions enough on both sides. ``whose``: MACHINES, COMMON, SOME or UNTOLD. ``shared``: facts that all that
    changed state alike after the change, and none of the others does."""

    machine_class: str
    changes: tuple[MachineChange, ...]
    watched: int
    whose: str
    shared: tuple[str, ...] = ()

    @property
    def up(self) -> bool:
        return self.changes[0].change.up


def tracks_by_machine(
    entries: Iterable[Entry], across: Iterable[str] = (), confirm: int = CONFIRM
) -> dict[str, tuple[Track, ...]]:
    """The series of each machine of a fleet by itself, of one arm; sessions of several machines are none's."""
    past = tuple(across)
    by_machine: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.worker and SEVERAL not in entry.worker:
            by_machine.setdefault(entry.worker, []).append(entry)
    return {
        machine: tuple(Track(series, find_changes(series, confirm), confirm) for series in split(mine, past))
        for machine, mine in by_machine.items()
    }


def find_common(tracks: Mapping[str, Sequence[Track]]) -> tuple[CommonChange, ...]:
    """``tracks``: of each machine the series of one arm, oldest first. In the order of time, by class."""
    classes: dict[str, list[str]] = {}
    for machine, told in tracks.items():
        if told:
            classes.setdefault(_class(told[-1].series.entries[-1]), []).append(machine)
    found: list[CommonChange] = []
    for name, machines in classes.items():
        mine = {machine: tracks[machine] for machine in machines}
        found += [_judge(name, group, mine) for group in _groups(_changes(mine))]
    return tuple(found)


def _class(entry: Entry) -> str:
    return class_of(entry.conditions.facts)


def _changes(tracks: Mapping[str, Sequence[Track]]) -> list[MachineChange]:
    listed = []
    for machine, told in tracks.items():
        for item in told:
            entries = item.series.entries
            for change in item.changes:
                if change.confirmed:
                    first, last = max(change.index - 2, 0), min(change.index + 1, len(entries) - 1)
                    between = entries[first].created, entries[last].created
                    listed.append(MachineChange(machine, entries[change.index].session, change, between))
    return sorted(listed, key=lambda item: item.between)


def _groups(changes: Iterable[MachineChange]) -> list[list[MachineChange]]:
    """Of the same sign, all of which may have been at one moment; of each machine one."""
    groups: list[list[MachineChange]] = []
    for item in changes:
        for group in groups:
            begin, end = max(one.between[0] for one in group), min(one.between[1] for one in group)
            same = group[0].change.up == item.change.up and item.machine not in {one.machine for one in group}
            if same and item.between[0] <= end and begin <= item.between[1]:
                group.append(item)
                break
        else:
            groups.append([item])
    return groups


def _judge(name: str, group: Sequence[MachineChange], tracks: Mapping[str, Sequence[Track]]) -> CommonChange:
    begin, end = max(item.between[0] for item in group), min(item.between[1] for item in group)
    changed = {item.machine for item in group}
    rest = [machine for machine, told in tracks.items() if machine not in changed and _watched(told, begin, end)]
    watched = len(changed) + len(rest)
    if watched < LEAST:
        whose = UNTOLD
    elif len(changed) > watched / 2:
        whose = COMMON
    else:
        whose = MACHINES if len(changed) == 1 else SOME
    after = [_facts(tracks[item.machine], end) for item in group]
    others = [_facts(tracks[machine], end) for machine in rest]
    return CommonChange(name, tuple(group), watched, whose, _shared(after, others))


def _watched(told: Sequence[Track], begin: float, end: float) -> bool:
    """Whether a change at that time would have counted: sessions enough before it and after it, in one series."""
    for item in told:
        times = [entry.created for entry in item.series.entries]
        if sum(time <= begin + _DAY for time in times) >= item.confirm <= sum(time >= end - _DAY for time in times):
            return True
    return False


def _facts(told: Sequence[Track], moment: float) -> Mapping[str, str]:
    """What the last session up to that moment states."""
    entries = [entry for item in told for entry in item.series.entries if entry.created <= moment]
    return max(entries, key=lambda entry: entry.created).conditions.facts if entries else {}


def _shared(changed: Sequence[Mapping[str, str]], others: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    if len(changed) < 2 or not others:
        return ()
    alike = {key: text for key, text in changed[0].items() if all(facts.get(key) == text for facts in changed)}
    return tuple(
        f"{key}: {text}" for key, text in alike.items() if all(facts.get(key, text) != text for facts in others)
    )
