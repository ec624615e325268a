"""One arm over many sessions: a series for each state of the machine, since figures of two states are not comparable.
Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain

from kit.analysis.history.outcome import Outcome
from kit.model.fact import GUEST, MACHINE, RUN_ORDER, VERSIONS, WORKER, read_facts
from kit.model.sample import SEQUENTIAL, is_input
from kit.model.session import Session

#: Represents every input of a scenario, whatever its name.
SOURCES = "sources"
_COMMIT = re.compile("[0-9a-f]{40,64}")
#: Letters of a commit that people read.
_SHORT = 12


@dataclass(frozen=True)
class Conditions:
    """Conditions that figures depend on, apart from the arm: facts by key, as far as sessions can share them, and
    digests by their subject."""

    facts: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)

    def with_those_of(self, other: Conditions) -> Conditions:
        return Conditions({**self.facts, **other.facts}, {**self.digests, **other.digests})


@dataclass(frozen=True)
class Entry:
    """One session's outcome for one arm, phase and metric."""

    session: str  # its id
    created: float  # Unix time
    machine: str  # tells machines apart without naming them
    kit_version: str
    conditions: Conditions
    outcome: Outcome
    worker: str = ""  # what its fleet calls the machine
    versions: Mapping[str, str] = field(default_factory=dict)  # facts of the kinds VERSIONS, by key

    @property
    def ratio(self) -> float:
        """Return the penalty. Entries without a penalty are left out of a series."""
        return self.outcome.comparison.ratio or 0.0


def compared_alike(entries: Iterable[Entry], baseline: str, point: str) -> list[Entry]:
    """Return the entries with that baseline at that point."""
    listed = ((entry, entry.outcome.comparison) for entry in entries)
    return [entry for entry, item in listed if (item.baseline, item.point) == (baseline, point)]


@dataclass(frozen=True)
class Differing:
    """A condition that differs between two sessions."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        old, new = self.before.split("; "), self.after.split("; ")
        gone, come = ([part for part in one if part not in other] for one, other in ((old, new), (new, old)))
        return f"{self.name}: {'; '.join(gone) or 'nothing'} → {'; '.join(come) or 'nothing'}"


@dataclass(frozen=True)
class DifferingDigest(Differing):
    """A digest of an input or program, for example, that differs."""

    def __str__(self) -> str:
        return f"{self.name.removeprefix(_named(''))} changed ({self.before[:12]} → {self.after[:12]})"


@dataclass(frozen=True)
class DifferingVersion(Differing):
    """A commit or a label that differs: no condition of a series, but what to look at where a penalty changed."""

    def __str__(self) -> str:
        return f"{self.name} {short(self.before) or 'unknown'} → {short(self.after)}"


def short(version: str) -> str:
    """Return a commit as people write it; other text unchanged."""
    return version[:_SHORT] if _COMMIT.fullmatch(version) else version


@dataclass(frozen=True)
class Series:
    """Entries under one state of machine, settings and inputs, in the order of time. ``began_with``: differences from
    the previous session, of the same machine if there is one; empty for the first series."""

    entries: tuple[Entry, ...]
    began_with: tuple[Differing, ...] = ()


def make_entry(session: Session, outcome: Outcome) -> Entry:
    """Return an outcome with all conditions that a figure depends on: facts, settings, digests."""
    return next(make_entries(session, (outcome,)))


def make_entries(session: Session, outcomes: Iterable[Outcome]) -> Iterator[Entry]:
    """Return the entries of one session. Facts are read once: a fleet's answer reads thousands of sessions with several
    arms."""
    facts = conditions(session).facts
    machine, worker = MACHINE.text(session.facts), WORKER.text(session.facts)
    named = versions(session)
    for item in outcomes:
        known = Conditions(facts, dict(item.digests))
        yield Entry(session.id, session.created, machine, session.kit_version, known, item, worker, named)


def conditions(session: Session) -> Conditions:
    """Return the facts of a session that its figures depend on."""
    facts = {
        fact.key: fact.kind.compared(fact.text, session.id) for fact in read_facts(session.facts) if not fact.volatile
    }
    return Conditions({GUEST.key: "none", RUN_ORDER.key: SEQUENTIAL, **facts})


def versions(session: Session) -> dict[str, str]:
    """Return the commits and labels of a session, by fact."""
    return {fact.key: fact.text for fact in read_facts(session.facts) if fact.kind in VERSIONS}


def version_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Differing, ...]:
    """Return the commits and labels of ``after`` that are not those of ``before``."""
    changed = [name for name in after if before.get(name) != after[name]]
    return tuple(DifferingVersion(name, before.get(name, ""), after[name]) for name in changed)


def differences(before: Conditions, after: Conditions, across: Iterable[str] = ()) -> tuple[Differing, ...]:
    """Return the conditions that both have and that differ. A condition of one alone is ignored: a session of more arms
    has more.

    ``across``: names of conditions to ignore, a digest by its subject (``image``); ``sources``: all inputs."""
    past = frozenset(across)
    facts = [Differing(*item) for item in _unlike(before.facts, after.facts) if item[0] not in past]
    digests = [
        DifferingDigest(_named(name), one, other)
        for name, one, other in _unlike(before.digests, after.digests)
        if not past & {name, _named(name)} and not (SOURCES in past and is_input(name))
    ]
    return (*facts, *digests)


def agree(before: Conditions, after: Conditions, across: Collection[str] = ()) -> bool:
    """Return whether there are no differences. A history calls this for each session and each series."""
    if across:
        return not differences(before, after, across)
    pairs = (after.digests, before.digests), (after.facts, before.facts)
    return all(other.get(key, text) == text for one, other in pairs for key, text in one.items())


def _unlike(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [(key, before[key], after[key]) for key in before if key in after and before[key] != after[key]]


def _named(digest: str) -> str:
    """Return the name of a digest among conditions."""
    return f"digest of {digest}"


def split(entries: Sequence[Entry], across: Iterable[str] = ()) -> tuple[Series, ...]:
    """Return the series of entries, with the newest entry's series last.

    An entry continues the latest series whose conditions agree with its own, else it begins a series. So two kinds of
    machines that share a store make two complete series."""
    past = tuple(across)
    open_ = _OpenSeries()
    before: dict[tuple[str, str], Entry] = {}  # the last of each machine, or its guest
    last: Entry | None = None
    for entry in sorted(entries, key=lambda item: (item.created, item.session)):
        worker = "" if WORKER.key in past else WORKER.text(entry.conditions.facts)
        mine = next((one for one in open_.of(worker) if agree(one.state, entry.conditions, past)), None)
        if mine is None:
            earlier = before.get(_place(entry), last)
            mine = _Open(differences(earlier.conditions, entry.conditions, past) if earlier else ())
        open_.go_on(mine, entry, worker)
        before[_place(entry)] = last = entry
    return tuple(Series(tuple(one.entries), one.began_with) for one in open_)


@dataclass(eq=False)
class _Open:
    """A series that may continue. ``used``: larger for a series that was used later."""

    began_with: tuple[Differing, ...]
    state: Conditions = Conditions()
    entries: list[Entry] = field(default_factory=list)
    worker: str = ""
    used: int = 0


class _OpenSeries:
    """Open series in the order of their last entries, by machine name for a fleet. A thousand machines have a thousand
    series; entries are compared only with series of their own machine."""

    def __init__(self) -> None:
        self._by_worker: dict[str, list[_Open]] = {}
        self._count = 0

    def __iter__(self) -> Iterator[_Open]:
        return iter(sorted(chain.from_iterable(self._by_worker.values()), key=_used))

    def of(self, worker: str) -> Iterator[_Open]:
        """Return the series that may be of that machine, the last first; all series for ''."""
        if not worker:
            return reversed(list(self))
        mine, unnamed = (reversed(self._by_worker.get(name, ())) for name in (worker, ""))
        return merge(mine, unnamed, key=_used, reverse=True)

    def go_on(self, series: _Open, entry: Entry, worker: str) -> None:
        if series.entries:
            self._by_worker[series.worker].remove(series)
        self._count += 1
        series.entries.append(entry)
        series.state, series.used = series.state.with_those_of(entry.conditions), self._count
        series.worker = worker or series.worker
        self._by_worker.setdefault(series.worker, []).append(series)


def _used(series: _Open) -> int:
    return series.used


def _place(entry: Entry) -> tuple[str, str]:
    return entry.machine, GUEST.text(entry.conditions.facts)
