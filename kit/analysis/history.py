"""One arm over many sessions: a series for each state of the machine, since figures of two states are not one series.
Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kit.analysis.outcome import Outcome
from kit.model.session import NO_ELSEWHERE, NO_REPEATS, Session

#: Facts that differ from session to session, or that no figure depends on. An image is told by its digest.
_VOLATILE = frozenset({"machine", "seed", "rounds", "stopped", "idle CPU", "machine CPU from", "burst rule", "image"})
#: Parts of a driver's status that say how it is filled and named, not what it is.
_PASSING = re.compile(r"(Pool Name|Zpool|Parent Dataset|[^:]*\b(Space|file|Count)\b[^:]*):")
_DIGEST = "digest of "
_INPUT = f"{_DIGEST}input "
#: Stands for whatever a scenario builds, whichever its inputs are called.
SOURCES = "sources"


@dataclass(frozen=True)
class Entry:
    """One session's outcome for one arm, phase and metric."""

    session: str  # its id
    created: float  # Unix time
    machine: str  # tells machines apart without naming them
    kit_version: str
    conditions: Mapping[str, str]
    outcome: Outcome

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
        if self.name.startswith(_DIGEST):
            return f"{self.name.removeprefix(_DIGEST)} changed ({self.before[:12]} → {self.after[:12]})"
        old, new = self.before.split("; "), self.after.split("; ")
        gone, come = ([part for part in one if part not in other] for one, other in ((old, new), (new, old)))
        return f"{self.name}: {'; '.join(gone) or 'nothing'} → {'; '.join(come) or 'nothing'}"


@dataclass(frozen=True)
class Series:
    """Entries under one state of machine, settings and inputs, in the order of time. ``began_with``: what differed
    from the last session before it, on the same machine where there is one; empty for the first."""

    entries: tuple[Entry, ...]
    began_with: tuple[Differing, ...] = ()


def make_entry(session: Session, outcome: Outcome) -> Entry:
    """An outcome with all that a figure depends on: facts, settings, digests."""
    return Entry(
        session.id, session.created, session.facts.get("machine", ""), session.kit_version,
        conditions(session, outcome), outcome,
    )  # fmt: skip


def conditions(session: Session, outcome: Outcome | None = None) -> dict[str, str]:
    """The facts of a session that its figures depend on; with an outcome also the digests of what was run."""
    facts = {
        key: _steady(value, session.id)
        for key, value in session.facts.items()
        if key not in _VOLATILE and not key.startswith((NO_ELSEWHERE, NO_REPEATS))
    }
    digests = outcome.digests if outcome else ()
    return {"guest": "none", **facts, **{f"{_DIGEST}{key}": value for key, value in digests}}


def _steady(value: str, session: str) -> str:
    """A fact without what is of one session alone: names of pools, files and loop devices, space in use, the order in
    which a driver tells its status."""
    text = re.sub(rf"(kit-)?{re.escape(session)}[\w-]*", "…", value)
    text = re.sub(r"/dev/loop\d+", "/dev/loop", text)
    return "; ".join(sorted(part for part in text.split("; ") if not _PASSING.match(part)))


def differences(
    before: Mapping[str, str], after: Mapping[str, str], across: Iterable[str] = ()
) -> tuple[Differing, ...]:
    """Conditions that both have and that differ. What one alone has says nothing: a session of more arms states more.

    ``across``: names of conditions to look past, a digest by what it is of (``image``); ``sources``: all inputs.
    """
    past = {*across, *(f"{_DIGEST}{name}" for name in across)}
    return tuple(
        Differing(key, before[key], after[key])
        for key in before
        if key in after
        and before[key] != after[key]
        and key not in past
        and not (SOURCES in past and key.startswith(_INPUT))
    )


def split(entries: Sequence[Entry], across: Iterable[str] = ()) -> tuple[Series, ...]:
    """Series of entries, the one that the newest entry belongs to last.

    An entry continues the latest series with whose conditions it agrees, so machines of two kinds that share a store
    make two series, each whole; else it begins one.
    """
    past = tuple(across)
    open_: list[tuple[dict[str, str], list[Entry], tuple[Differing, ...]]] = []
    seen: list[Entry] = []
    for entry in sorted(entries, key=lambda item: (item.created, item.session)):
        mine = next((one for one in reversed(open_) if not differences(one[0], entry.conditions, past)), None)
        if mine is None:
            mine = ({}, [], _began(seen, entry, past))
        else:
            open_.remove(mine)
        mine[0].update(entry.conditions)
        mine[1].append(entry)
        open_.append(mine)
        seen.append(entry)
    return tuple(Series(tuple(listed), began) for _, listed, began in open_)


def _began(seen: Sequence[Entry], entry: Entry, past: Iterable[str]) -> tuple[Differing, ...]:
    """What differs from the session before: that of this machine (or its guest), else the last of any."""
    place = _place(entry)
    before = next((item for item in reversed(seen) if _place(item) == place), seen[-1] if seen else None)
    return differences(before.conditions, entry.conditions, past) if before else ()


def _place(entry: Entry) -> tuple[str, str]:
    return entry.machine, entry.conditions.get("guest", "")
