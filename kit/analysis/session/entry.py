"""One session's outcome with the conditions that its figures depend on, and how those of two sessions differ. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kit.analysis.session.outcome import Outcome
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


@dataclass(frozen=True)
class Differing:
    """A condition that differs between two sessions."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        old, new = self.before.split("; "), self.after.split("; ")
        gone, come = ([part for part in parts if part not in others] for parts, others in ((old, new), (new, old)))
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


def make_entry(session: Session, outcome: Outcome) -> Entry:
    """Return an outcome with all conditions that a figure depends on: facts, settings, digests."""
    return next(make_entries(session, (outcome,)))


def make_entries(session: Session, outcomes: Iterable[Outcome]) -> Iterator[Entry]:
    """Return the entries of one session. Facts are read once: a fleet's answer reads thousands of sessions with several
    arms."""
    facts = conditions(session).facts
    machine, worker = MACHINE.text(session.facts), WORKER.text(session.facts)
    session_versions = versions(session)
    for outcome in outcomes:
        arm_conditions = Conditions(facts, dict(outcome.digests))
        yield Entry(
            session.id, session.created, machine, session.kit_version, arm_conditions, outcome, worker, session_versions
        )


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
    facts = [Differing(*difference) for difference in _unlike(before.facts, after.facts) if difference[0] not in past]
    digests = [
        DifferingDigest(_named(name), old, new)
        for name, old, new in _unlike(before.digests, after.digests)
        if not past & {name, _named(name)} and not (SOURCES in past and is_input(name))
    ]
    return (*facts, *digests)


def agree(before: Conditions, after: Conditions, across: Collection[str] = ()) -> bool:
    """Return whether there are no differences. A history calls this for each session and each series."""
    if across:
        return not differences(before, after, across)
    pairs = (after.digests, before.digests), (after.facts, before.facts)
    return all(other_texts.get(key, text) == text for texts, other_texts in pairs for key, text in texts.items())


def _unlike(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [(key, before[key], after[key]) for key in before if key in after and before[key] != after[key]]


def _named(digest: str) -> str:
    """Return the name of a digest among conditions."""
    return f"digest of {digest}"
