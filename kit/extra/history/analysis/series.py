"""One arm over many sessions: a series for each state of the machine, since figures of two states are not comparable.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain

from kit.analysis.session.entry import Conditions, Differing, Entry, agree, differences
from kit.model.fact import GUEST, WORKER


def compared_alike(entries: Iterable[Entry], baseline: str, point: str) -> list[Entry]:
    """Return the entries with that baseline at that point."""
    listed = ((entry, entry.outcome.comparison) for entry in entries)
    return [entry for entry, comparison in listed if (comparison.baseline, comparison.point) == (baseline, point)]


@dataclass(frozen=True)
class Series:
    """Entries under one state of machine, settings and inputs, in the order of time. ``began_with``: differences from
    the previous session, of the same machine if there is one; empty for the first series."""

    entries: tuple[Entry, ...]
    began_with: tuple[Differing, ...] = ()


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
        current = next(
            (candidate for candidate in open_.of(worker) if agree(candidate.state, entry.conditions, past)), None
        )
        if current is None:
            earlier = before.get(_place(entry), last)
            current = _Open(differences(earlier.conditions, entry.conditions, past) if earlier else ())
        open_.go_on(current, entry, worker)
        before[_place(entry)] = last = entry
    return tuple(Series(tuple(series.entries), series.began_with) for series in open_)


@dataclass(eq=False)
class _Open:
    """A series that may continue. ``used``: larger for a series that was used later."""

    began_with: tuple[Differing, ...]
    state: Conditions = field(default_factory=Conditions)
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
        of_worker, unnamed = (reversed(self._by_worker.get(name, ())) for name in (worker, ""))
        return merge(of_worker, unnamed, key=_used, reverse=True)

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
