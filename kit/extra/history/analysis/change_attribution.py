"""Attribution of a change to one machine, or to conditions that machines of a class share: driver or kernel for
example. Pure.

A machine's history starts a new series with each kernel. Here series continue across kernels, to find changes that came
with the kernel on each machine that received it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kit.analysis.session.entry import Entry, differences
from kit.analysis.stats import estimators
from kit.extra.history.analysis.changepoint import CONFIRM, Change, ChangeHistory, find_changes
from kit.extra.history.analysis.series import split
from kit.model.fact import ASKED, CLASS, GUEST, SEVERAL
from kit.model.machine import class_of

#: Whose a change is. If some machines changed, neither most nor one alone, shared conditions may explain the change.
MACHINES, COMMON, SOME, UNTOLD = "the machine's", "common", "some machines'", "unknown"
#: Attribution needs at least this number of machines.
LEAST = 3
_DAY = 86400.0
#: Conditions that start a new series here, too, beside digests.
_ASKED = frozenset(kind.key for kind in (*ASKED, GUEST, CLASS))


@dataclass(frozen=True)
class MachineChange:
    """A change on one machine. ``between``: Unix times of the sessions around it; a change point may be one session
    off. ``differs``: recorded conditions that changed there."""

    machine: str
    session: str
    change: Change
    between: tuple[float, float]
    differs: tuple[str, ...] = ()


@dataclass(frozen=True)
class CommonChange:
    """Confirmed changes of one sign on machines of a class, at the same time or with the same changed conditions.
    ``between``: Unix times. ``watched``: number of machines with enough sessions on both sides. ``whose``: MACHINES,
    COMMON, SOME or UNTOLD. ``following``: other machines that moved likewise, too little for detection without a given
    place. They are named if they and the changed ones are most of the class. ``shared``: facts that all changed
    machines state equally after the change, and no other machine states. ``came_with``: conditions that changed on all
    of them and on no other. ``there``: number of machines from which the watched ones were drawn; 0 if all were
    watched."""

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
) -> dict[str, tuple[ChangeHistory, ...]]:
    """Return the series of one arm for each machine of a fleet, across all changes of the machine. Sessions of several
    machines belong to no series."""
    entries = tuple(entries)
    past = {*across, *(key for entry in entries for key in entry.conditions.facts)} - (_ASKED - {*across})
    by_machine: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.worker and SEVERAL not in entry.worker:
            by_machine.setdefault(entry.worker, []).append(entry)
    return {
        machine: tuple(
            ChangeHistory(series, find_changes(series, confirm), confirm) for series in split(machine_entries, past)
        )
        for machine, machine_entries in by_machine.items()
    }


def long_enough(tracks: Mapping[str, Sequence[ChangeHistory]], confirm: int = CONFIRM) -> int:
    """Return the number of machines with enough sessions before and after to detect a change."""
    return sum(
        any(len(history.series.entries) >= 2 * confirm for history in histories) for histories in tracks.values()
    )


def find_common(
    tracks: Mapping[str, Sequence[ChangeHistory]], drawn: Mapping[str, int] | None = None
) -> tuple[CommonChange, ...]:
    """Return common changes in the order of time, by class. ``tracks``: each machine's series of one arm, oldest first.
    ``drawn``: number of machines of each class, if these are a sample."""
    classes: dict[str, list[str]] = {}
    for machine, histories in tracks.items():
        if histories:
            classes.setdefault(_class(histories[-1].series.entries[-1]), []).append(machine)
    common: list[CommonChange] = []
    for name, machines in classes.items():
        class_tracks = {machine: tracks[machine] for machine in machines}
        there = (drawn or {}).get(name, 0)
        common += [replace(_judge(name, group, class_tracks), there=there) for group in _groups(_changes(class_tracks))]
    return tuple(common)


def _class(entry: Entry) -> str:
    return class_of(entry.conditions.facts)


def _changes(tracks: Mapping[str, Sequence[ChangeHistory]]) -> list[MachineChange]:
    listed = []
    for machine, histories in tracks.items():
        for history in histories:
            entries = history.series.entries
            for change in history.changes:
                if change.confirmed:
                    first, last = max(change.index - 2, 0), min(change.index + 1, len(entries) - 1)
                    between = entries[first].created, entries[last].created
                    differs = _differs(entries[first], entries[last])
                    listed.append(MachineChange(machine, entries[change.index].session, change, between, differs))
    return sorted(listed, key=lambda item: item.between)


def _differs(earlier: Entry, later: Entry) -> tuple[str, ...]:
    kit = (f"kit: {earlier.kit_version} → {later.kit_version}",) if earlier.kit_version != later.kit_version else ()
    return (*kit, *map(str, differences(earlier.conditions, later.conditions)))


def _groups(changes: Iterable[MachineChange]) -> list[list[MachineChange]]:
    """Return groups of changes of one sign, with one change of each machine. A group shares a possible moment, or the
    same changed conditions: machines receive a new kernel one after the other."""
    groups: list[list[MachineChange]] = []
    for change in changes:
        for group in groups:
            begin, end = max(member.between[0] for member in group), min(member.between[1] for member in group)
            same = group[0].change.up == change.change.up and change.machine not in {member.machine for member in group}
            at_once = change.between[0] <= end and begin <= change.between[1]
            if same and (at_once or _alike([*group, change])):
                group.append(change)
                break
        else:
            groups.append([change])
    return groups


def _alike(group: Sequence[MachineChange]) -> tuple[str, ...]:
    """Return the conditions that changed on all of them."""
    return tuple(text for text in group[0].differs if all(text in change.differs for change in group))


def _judge(name: str, group: Sequence[MachineChange], tracks: Mapping[str, Sequence[ChangeHistory]]) -> CommonChange:
    begin, end = sorted((max(change.between[0] for change in group), min(change.between[1] for change in group)))
    changed = {change.machine for change in group}
    unchanged = [
        machine for machine, histories in tracks.items() if machine not in changed and _watched(histories, begin, end)
    ]
    watched = len(changed) + len(unchanged)
    least = min((change.change.after / change.change.before for change in group), key=lambda size: abs(math.log(size)))
    following = tuple(machine for machine in unchanged if _follows(tracks[machine], begin, end, least))
    if 2 * (len(changed) + len(following)) <= watched:
        following = ()  # among many machines some do at random
    unchanged = [machine for machine in unchanged if machine not in following]
    if watched < LEAST:
        whose = UNTOLD
    elif len(unchanged) < watched / 2:
        whose = COMMON
    else:
        whose = MACHINES if len(changed) == 1 else SOME
    after = [_facts(tracks[change.machine], change.between[1]) for change in group]
    others = [_facts(tracks[machine], end) for machine in unchanged]
    idle = {text for machine in unchanged for text in _transitions(tracks[machine])}
    came_with = tuple(text for text in _alike(group) if text not in idle)
    shared = _shared(after, others)
    return CommonChange(name, tuple(group), watched, whose, shared, (begin, end), came_with, following)


def _follows(histories: Sequence[ChangeHistory], begin: float, end: float, least: float) -> bool:
    """Return whether a machine's sessions before and after differ in the direction of ``least``, perhaps as much.
    Sessions up to the machine's other changes count (Welch's t test, 1 machine in 40 does at random)."""
    for history in histories:
        entries = history.series.entries
        steps = [entries[change.index].created for change in history.changes if change.confirmed]
        first = max((step for step in steps if step <= begin), default=-math.inf)
        last = min((step for step in steps if step > end), default=math.inf)
        logs = [(entry.created, math.log(entry.ratio)) for entry in entries if first <= entry.created < last]
        before, after = ([log for at, log in logs if at <= begin], [log for at, log in logs if at >= end])
        shift = estimators.welch_ratio(np.array(before), np.array(after))
        if shift and shift.low and shift.high:
            return shift.low > 1 and shift.high >= least if least > 1 else shift.low <= least and shift.high < 1
    return False


def _transitions(histories: Sequence[ChangeHistory]) -> Iterator[str]:
    """Return all conditions that changed on a machine."""
    for history in histories:
        for earlier, later in itertools.pairwise(history.series.entries):
            yield from _differs(earlier, later)


def _watched(histories: Sequence[ChangeHistory], begin: float, end: float) -> bool:
    """Return whether a change at that time would have counted: one series has enough sessions before and after."""
    for history in histories:
        times = [entry.created for entry in history.series.entries]
        if sum(time <= begin + _DAY for time in times) >= history.confirm <= sum(time >= end - _DAY for time in times):
            return True
    return False


def _facts(histories: Sequence[ChangeHistory], moment: float) -> Mapping[str, str]:
    """Return the facts of the last session up to that moment."""
    entries = [entry for history in histories for entry in history.series.entries if entry.created <= moment]
    return max(entries, key=lambda entry: entry.created).conditions.facts if entries else {}


def _shared(changed: Sequence[Mapping[str, str]], others: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    if len(changed) < 2 or not others:
        return ()
    alike = {key: text for key, text in changed[0].items() if all(facts.get(key) == text for facts in changed)}
    return tuple(
        f"{key}: {text}" for key, text in alike.items() if all(facts.get(key, text) != text for facts in others)
    )
