"""One arm over many sessions: a series for each state of the machine, since figures of two states are not one series.
Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kit.analysis.outcome import Outcome
from kit.model.fact import GUEST, MACHINE, SLICES, WORKER, read_facts
from kit.model.sample import WHOLE, is_input
from kit.model.session import Session

#: Stands for whatever a scenario builds, whichever its inputs are called.
SOURCES = "sources"
#: Stands between the names of several machines of one session.
SEVERAL = ", "


@dataclass(frozen=True)
class Conditions:
    """What figures depend on, apart from the arm: facts by their keys, as far as sessions can have them in common, and
    digests by what they are of."""

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

    @property
    def ratio(self) -> float:
        """The penalty. Entries without one are left out of a series."""
        return self.outcome.comparison.ratio or 0.0


@dataclass(frozen=True)
class Differing:
    """A condition that two sessions do not have in common."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        old, new = self.before.split("; "), self.after.split("; ")
        gone, come = ([part for part in one if part not in other] for one, other in ((old, new), (new, old)))
        return f"{self.name}: {'; '.join(gone) or 'nothing'} → {'; '.join(come) or 'nothing'}"


@dataclass(frozen=True)
class DifferingDigest(Differing):
    """Of something that was run, an input for example."""

    def __str__(self) -> str:
        return f"{self.name.removeprefix(_named(''))} changed ({self.before[:12]} → {self.after[:12]})"


@dataclass(frozen=True)
class Series:
    """Entries under one state of machine, settings and inputs, in the order of time. ``began_with``: what differed
    from the last session before it, on the same machine where there is one; empty for the first."""

    entries: tuple[Entry, ...]
    began_with: tuple[Differing, ...] = ()


def make_entry(session: Session, outcome: Outcome) -> Entry:
    """An outcome with all that a figure depends on: facts, settings, digests."""
    return next(make_entries(session, (outcome,)))


def make_entries(session: Session, outcomes: Iterable[Outcome]) -> Iterator[Entry]:
    """Of one session. Facts are read once: a farm's answer asks of thousands of sessions with several arms."""
    facts = conditions(session).facts
    machine, worker = MACHINE.text(session.facts), WORKER.text(session.facts)
    for item in outcomes:
        known = Conditions(facts, dict(item.digests))
        yield Entry(session.id, session.created, machine, session.kit_version, known, item, worker)


def conditions(session: Session) -> Conditions:
    """The facts of a session that its figures depend on."""
    facts = {
        fact.key: fact.kind.compared(fact.text, session.id) for fact in read_facts(session.facts) if not fact.volatile
    }
    return Conditions({GUEST.key: "none", SLICES.key: WHOLE, **facts})


def differences(before: Conditions, after: Conditions, across: Iterable[str] = ()) -> tuple[Differing, ...]:
    """Conditions that both have and that differ. What one alone has says nothing: a session of more arms states more.

    ``across``: names of conditions to look past, a digest by what it is of (``image``); ``sources``: all inputs.
    """
    past = frozenset(across)
    facts = [Differing(*item) for item in _unlike(before.facts, after.facts) if item[0] not in past]
    digests = [
        DifferingDigest(_named(name), one, other)
        for name, one, other in _unlike(before.digests, after.digests)
        if not past & {name, _named(name)} and not (SOURCES in past and is_input(name))
    ]
    return (*facts, *digests)


def agree(before: Conditions, after: Conditions, across: Collection[str] = ()) -> bool:
    """Whether there are no differences. A history asks it of each session and each series."""
    if across:
        return not differences(before, after, across)
    pairs = (after.digests, before.digests), (after.facts, before.facts)
    return all(other.get(key, text) == text for one, other in pairs for key, text in one.items())


def _unlike(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [(key, before[key], after[key]) for key in before if key in after and before[key] != after[key]]


def _named(digest: str) -> str:
    """What a digest is called among conditions."""
    return f"digest of {digest}"


def split(entries: Sequence[Entry], across: Iterable[str] = ()) -> tuple[Series, ...]:
    """Series of entries, the one that the newest entry belongs to last.

    An entry continues the latest series with whose conditions it agrees, so machines of two kinds that share a store
    make two series, each whole; else it begins one.
    """
    past = tuple(across)
    open_: list[tuple[Conditions, list[Entry], tuple[Differing, ...]]] = []
    seen: list[Entry] = []
    for entry in sorted(entries, key=lambda item: (item.created, item.session)):
        mine = next((one for one in reversed(open_) if agree(one[0], entry.conditions, past)), None)
        if mine is None:
            mine = (Conditions(), [], _began(seen, entry, past))
        else:
            open_.remove(mine)
        state, listed, began = mine
        listed.append(entry)
        open_.append((state.with_those_of(entry.conditions), listed, began))
        seen.append(entry)
    return tuple(Series(tuple(listed), began) for _, listed, began in open_)


def _began(seen: Sequence[Entry], entry: Entry, past: Iterable[str]) -> tuple[Differing, ...]:
    """What differs from the session before: that of this machine (or its guest), else the last of any."""
    place = _place(entry)
    before = next((item for item in reversed(seen) if _place(item) == place), seen[-1] if seen else None)
    return differences(before.conditions, entry.conditions, past) if before else ()


def _place(entry: Entry) -> tuple[str, str]:
    return entry.machine, GUEST.text(entry.conditions.facts)
