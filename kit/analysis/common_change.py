"""A change that several machines saw, or one: whether it is the machine's, or comes with what the machines of a class
have in common, the driver or the kernel for example. Pure.

One machine's history is not carried on over another kernel, since two states of a machine are two series. Here it is:
that a change came with the kernel, on each machine that was given it, is what is asked.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kit.analysis import stats
from kit.analysis.changepoint import CONFIRM, Change, Track, find_changes
from kit.analysis.history import SEVERAL, Entry, differences, split
from kit.model.fact import ASKED, CLASS, GUEST
from kit.model.machine_class import class_of

#: Whose a change is. Where some changed and neither most nor one alone, what they have in common may tell.
MACHINES, COMMON, SOME, UNTOLD = "the machine's", "common", "some machines'", "not told"
#: So many machines must have been watched before one of them can be told from all.
LEAST = 3
_DAY = 86400.0
#: What makes figures of one machine two series here, too, beside digests.
_ASKED = frozenset(kind.key for kind in (*ASKED, GUEST, CLASS))


@dataclass(frozen=True)
class MachineChange:
    """``between``: the sessions, in Unix time, between which it lies; a change point may be one session off.
    ``differs``: recorded conditions that changed there."""

    machine: str
    session: str
    change: Change
    between: tuple[float, float]
    differs: tuple[str, ...] = ()


@dataclass(frozen=True)
class CommonChange:
    """Confirmed changes of the same sign on machines of a class, at the same time or where the same conditions changed.
    ``between``: when, Unix time. ``watched``: how many machines of it have sessions enough on both sides. ``whose``:
    MACHINES, COMMON, SOME or UNTOLD. ``following``: other machines that moved likewise there, too little for a change
    that is found without being told where; named where most of the class are so. ``shared``: facts that all that
    changed state alike after the change, and none of the others does. ``came_with``: conditions that changed there on
    all of them, and on none of the others. ``there``: of how many machines those that were watched were drawn; 0 where
    they are all."""

    machine_class: str
    changes: tuple[MachineChange, ...]
    watched: int
    whose: str
    shared: tuple[str, ...] = ()
    between: tuple[float, float] = (0.0, 0.0)
    came_with: tuple[str, ...] = ()
    following: tuple[str, ...] = ()
    there: int = 0

    @property
    def up(self) -> bool:
        return self.changes[0].change.up


def tracks_by_machine(
    entries: Iterable[Entry], across: Iterable[str] = (), confirm: int = CONFIRM
) -> dict[str, tuple[Track, ...]]:
    """The series of each machine of a fleet by itself, of one arm, whatever became of the machine meanwhile; sessions
    of several machines are none's."""
    entries = tuple(entries)
    past = {*across, *(key for entry in entries for key in entry.conditions.facts)} - (_ASKED - {*across})
    by_machine: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.worker and SEVERAL not in entry.worker:
            by_machine.setdefault(entry.worker, []).append(entry)
    return {
        machine: tuple(Track(series, find_changes(series, confirm), confirm) for series in split(mine, past))
        for machine, mine in by_machine.items()
    }


def long_enough(tracks: Mapping[str, Sequence[Track]], confirm: int = CONFIRM) -> int:
    """How many machines have sessions enough, before and after, to tell a change."""
    return sum(any(len(item.series.entries) >= 2 * confirm for item in told) for told in tracks.values())


def find_common(
    tracks: Mapping[str, Sequence[Track]], drawn: Mapping[str, int] | None = None
) -> tuple[CommonChange, ...]:
    """``tracks``: of each machine the series of one arm, oldest first. ``drawn``: how many machines there are of each
    class, where these are some of them. In the order of time, by class."""
    classes: dict[str, list[str]] = {}
    for machine, told in tracks.items():
        if told:
            classes.setdefault(_class(told[-1].series.entries[-1]), []).append(machine)
    found: list[CommonChange] = []
    for name, machines in classes.items():
        mine = {machine: tracks[machine] for machine in machines}
        there = (drawn or {}).get(name, 0)
        found += [replace(_judge(name, group, mine), there=there) for group in _groups(_changes(mine))]
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
                    differs = _differs(entries[first], entries[last])
                    listed.append(MachineChange(machine, entries[change.index].session, change, between, differs))
    return sorted(listed, key=lambda item: item.between)


def _differs(one: Entry, other: Entry) -> tuple[str, ...]:
    kit = (f"kit: {one.kit_version} → {other.kit_version}",) if one.kit_version != other.kit_version else ()
    return (*kit, *map(str, differences(one.conditions, other.conditions)))


def _groups(changes: Iterable[MachineChange]) -> list[list[MachineChange]]:
    """Of the same sign, all of which may have been at one moment, or where all machines were changed alike: they are
    given a new kernel one after the other. Of each machine one."""
    groups: list[list[MachineChange]] = []
    for item in changes:
        for group in groups:
            begin, end = max(one.between[0] for one in group), min(one.between[1] for one in group)
            same = group[0].change.up == item.change.up and item.machine not in {one.machine for one in group}
            at_once = item.between[0] <= end and begin <= item.between[1]
            if same and (at_once or _alike([*group, item])):
                group.append(item)
                break
        else:
            groups.append([item])
    return groups


def _alike(group: Sequence[MachineChange]) -> tuple[str, ...]:
    """Conditions that changed on all of them."""
    return tuple(text for text in group[0].differs if all(text in item.differs for item in group))


def _judge(name: str, group: Sequence[MachineChange], tracks: Mapping[str, Sequence[Track]]) -> CommonChange:
    begin, end = sorted((max(item.between[0] for item in group), min(item.between[1] for item in group)))
    changed = {item.machine for item in group}
    rest = [machine for machine, told in tracks.items() if machine not in changed and _watched(told, begin, end)]
    watched = len(changed) + len(rest)
    least = min((item.change.after / item.change.before for item in group), key=lambda size: abs(math.log(size)))
    following = tuple(machine for machine in rest if _follows(tracks[machine], begin, end, least))
    if 2 * (len(changed) + len(following)) <= watched:
        following = ()  # among many machines some do by chance
    rest = [machine for machine in rest if machine not in following]
    if watched < LEAST:
        whose = UNTOLD
    elif len(rest) < watched / 2:
        whose = COMMON
    else:
        whose = MACHINES if len(changed) == 1 else SOME
    after = [_facts(tracks[item.machine], item.between[1]) for item in group]
    others = [_facts(tracks[machine], end) for machine in rest]
    idle = {text for machine in rest for text in _transitions(tracks[machine])}
    came_with = tuple(text for text in _alike(group) if text not in idle)
    shared = _shared(after, others)
    return CommonChange(name, tuple(group), watched, whose, shared, (begin, end), came_with, following)


def _follows(told: Sequence[Track], begin: float, end: float, least: float) -> bool:
    """Whether the sessions before and after, up to other changes of that machine, differ in the direction of ``least``
    (Welch's t test, one machine in forty does by chance), and perhaps as much."""
    for item in told:
        entries = item.series.entries
        steps = [entries[change.index].created for change in item.changes if change.confirmed]
        first = max((step for step in steps if step <= begin), default=-math.inf)
        last = min((step for step in steps if step > end), default=math.inf)
        logs = [(entry.created, math.log(entry.ratio)) for entry in entries if first <= entry.created < last]
        before, after = ([log for at, log in logs if at <= begin], [log for at, log in logs if at >= end])
        shift = stats.welch_ratio(np.array(before), np.array(after))
        if shift and shift.low and shift.high:
            return shift.low > 1 and shift.high >= least if least > 1 else shift.low <= least and shift.high < 1
    return False


def _transitions(told: Sequence[Track]) -> Iterator[str]:
    """All conditions that changed on a machine."""
    for item in told:
        for one, other in itertools.pairwise(item.series.entries):
            yield from _differs(one, other)


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
