"""Runs that count, as arrays: the samples of a session turned on their side, for statistics over many. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kit.analysis.readings import FIGURES, SPINS, Digests, Places, Readings, plausible, read
from kit.analysis.readings import Key as Key
from kit.analysis.stats import Floats
from kit.model.metric import MEASURED, described
from kit.model.sample import RUN_ORDER, SEQUENTIAL, TOTAL, Phase, Sample
from kit.model.sweep import parse_point, positive_number
from kit.parsers.figure import Reported
from kit.parsers.task import BuildTask

Made = TypeVar("Made")
_NO_PHASE = Phase("", "ok")


class Runs:
    """All measured runs that succeeded, by arm and point, in the order of their blocks.

    A flagged run that has been repeated gives way to its repetition, which stands in a block of its own; without
    ``repetitions`` all runs are as they were planned, flagged or not. Where a block holds an arm twice (an imported
    file may), the later run counts.
    """

    def __init__(self, samples: Iterable[Sample], repetitions: bool = True) -> None:
        self._all = read(samples, repetitions)
        gone = _repeated(self._all)
        self._places = {  # where the runs of an arm at a point stand among all
            key: found
            for number, key in enumerate(self._all.keys)
            if (found := _in_order(np.flatnonzero(self._all.key == number), self._all.block, gone)).size
        }
        self._cache: dict[tuple[object, ...], Any] = {}

    def once(self, make: Callable[..., Made], *given: object) -> Made:
        """``make(*given)``, computed once and kept as long as the runs are."""
        where = (make, *given)
        if where not in self._cache:
            self._cache[where] = make(*given)
        made: Made = self._cache[where]
        return made

    @property
    def points(self) -> tuple[str, ...]:
        """In the order of their values, as numbers where they are numbers."""
        return tuple(sorted({point for _, point in self._places}, key=_order))

    def has(self, key: Key) -> bool:
        return key in self._places

    def _at(self, key: Key) -> Places:
        return self._places.get(key, np.empty(0, np.int64))

    def samples(self, key: Key) -> Sequence[Sample]:
        return self.once(self._runs, key)

    def _runs(self, key: Key) -> list[Sample]:
        return list(map(self._all.runs.__getitem__, self._at(key).tolist()))

    def blocks(self, key: Key) -> NDArray[np.int64]:
        return self.once(self._blocks, key)

    def _blocks(self, key: Key) -> NDArray[np.int64]:
        return self._all.block[self._at(key)]

    def phases(self, keys: Iterable[Key]) -> tuple[str, ...]:
        """Names of the phases of these arms in order, ``total`` last where a run has more than one."""
        shapes = {shape for key in keys for shape in self.once(self._shapes, key)}
        names = dict.fromkeys(name for shape in sorted(shapes, key=len, reverse=True) for name in shape)
        return (*names, TOTAL) if any(len(shape) > 1 for shape in shapes) else tuple(names)

    def _shapes(self, key: Key) -> set[tuple[str, ...]]:
        return {self._all.shapes[number] for number in np.unique(self._all.shape[self._at(key)]).tolist()}

    def values(self, key: Key, phase: str, metric: str) -> Floats:
        """The metric, the kit's own or one that the workload reports, in every run of the arm, in the order of
        ``blocks``; NaN where it was not measured."""
        if self._all.reported and metric in self.reported([key], phase):
            return self.figure(key, phase, metric)
        return self.once(self._read, key, phase, metric)

    def _read(self, key: Key, phase: str, metric: str) -> Floats:
        known = described(metric)
        if not known.measured:
            made = self._sum(key, phase, known.parts)
            return (
                np.where(np.isfinite(made), made, self._sum(key, phase, known.otherwise)) if known.otherwise else made
            )
        if phase == TOTAL:
            parts = [self.values(key, name, metric) for name in self.phases([key]) if name != TOTAL]
            if parts:  # else a workload's only phase has that name
                together = np.sum if known.additive else np.max
                return together(parts, axis=0)  # type: ignore[no-any-return]
        if metric not in MEASURED:  # a figure that other arms report, or did at other points
            return self.figure(key, phase, metric)
        if metric in FIGURES:
            rows = self.once(self._rows, key, phase)
            column = self._all.figures[FIGURES.index(metric)]
            return np.where(rows < 0, np.nan, column[rows]) if (rows < 0).any() else column[rows]
        return plausible(np.array(list(map(attrgetter(metric), self.once(self._phase, key, phase))), float))

    def _rows(self, key: Key, phase: str) -> Places:
        """Where the phase of each run stands among all; -1 where the run has none of that name."""
        places = self._at(key)
        rows = np.full(places.size, -1)
        for number, names in enumerate(self._all.shapes):
            if phase in names:
                mine = self._all.shape[places] == number
                rows[mine] = self._all.first[places[mine]] + names.index(phase)
        return rows

    def _sum(self, key: Key, phase: str, parts: Sequence[str]) -> Floats:
        return np.sum([self.values(key, phase, part) for part in parts], axis=0)  # type: ignore[no-any-return]

    def reported(self, keys: Iterable[Key], phase: str) -> dict[str, Reported]:
        """The figures that the workload reports of a phase, in the order in which it does, each with one example."""
        found: dict[str, Reported] = {}
        for key in keys:
            found |= {name: item for name, item in self.once(self._reported, key, phase).items() if name not in found}
        return found

    def _reported(self, key: Key, phase: str) -> dict[str, Reported]:
        found: dict[str, Reported] = {}
        if phase != TOTAL and self._all.reported:
            for figure in chain.from_iterable(item.reported for item in self.once(self._phase, key, phase)):
                found.setdefault(figure.name, figure)
        return found

    def figure(self, key: Key, phase: str, name: str) -> Floats:
        """A reported figure in every run of the arm; NaN where a run did not report it."""
        return self.once(self._figure, key, phase, name)

    def _figure(self, key: Key, phase: str, name: str) -> Floats:
        listed = [{item.name: item.value for item in found.reported} for found in self.once(self._phase, key, phase)]
        return plausible(np.array([values.get(name, np.nan) for values in listed], float))

    def tasks(self, key: Key, phase: str) -> list[tuple[BuildTask, ...]]:
        """What the phase consists of, in every run of the arm; nothing where the build tool has not recorded it."""
        if not self._all.tasks:
            return [()] * self._at(key).size
        return [found.tasks for found in self.once(self._phase, key, phase)]

    def _phase(self, key: Key, name: str) -> list[Phase]:
        return [_find(sample.phases, name) for sample in self.samples(key)]

    def attribute(self, key: Key, name: str) -> Floats:
        """One of SPINS in every run; NaN where there is none."""
        found: Floats = self._all.spins[SPINS.index(name)][self._at(key)]
        return found

    def common(self, keys: Sequence[Key]) -> tuple[NDArray[np.int64], ...]:
        """For each arm the positions of those runs whose blocks hold all the arms, and runs that may be compared."""
        return self.once(self._common, *keys)

    def _common(self, *keys: Key) -> tuple[NDArray[np.int64], ...]:
        shared = self.blocks(keys[0])
        for key in keys[1:]:
            shared = in_both(shared, self.blocks(key))
        places = [_find_places(self.blocks(key), shared) for key in keys]
        alike = np.ones(shared.size, bool)
        for key, place in zip(keys[1:], places[1:], strict=True):
            alike &= self._alike(keys[0], places[0], key, place)
        return tuple(place[alike] for place in places)

    def interleaved(self, key: Key) -> bool:
        """Whether runs of the arm took turns with others."""
        return self.once(self._interleaved, key)

    def _interleaved(self, key: Key) -> bool:
        numbers = np.unique(self._all.digest[self._at(key)]).tolist()
        return any(dict(self._all.digests[number]).get(RUN_ORDER, SEQUENTIAL) != SEQUENTIAL for number in numbers)

    def _alike(self, one: Key, here: NDArray[np.int64], other: Key, there: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the digests of the runs agree, looked at once for each two that occur."""
        known = self._all.digests
        if len(known) < 2:
            return np.ones(here.size, bool)
        first, second = (self._all.digest[self._at(key)][place] for key, place in ((one, here), (other, there)))
        good: NDArray[np.bool_] = first == second
        for a, b in {(int(a), int(b)) for a, b in zip(first[~good], second[~good], strict=True)}:
            good |= (first == a) & (second == b) & (not differing(known[a], known[b]))
        return good


def _repeated(all_runs: Readings) -> list[int]:
    """Places of the flagged runs of which there is a repetition."""
    marked = [(place, all_runs.runs[place]) for place in all_runs.marked]
    repeated = {(item.arm, item.point, item.repeats) for _, item in marked if item.repeats is not None}
    return [place for place, item in marked if item.flags and (item.arm, item.point, item.block) in repeated]


def _in_order(places: Places, block: Places, gone: Sequence[int]) -> Places:
    """By blocks, without those that are gone; of two in one block the later."""
    kept = places[~np.isin(places, gone)] if gone else places
    ordered = kept[np.argsort(block[kept], kind="stable")]
    blocks = block[ordered]
    return ordered[np.append(blocks[1:] != blocks[:-1], True)] if ordered.size else ordered


def in_both(blocks: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int64]:
    """The blocks of the one that are among those of the other, both in order; mostly that is all of them."""
    return blocks if np.array_equal(blocks, others) else np.intersect1d(blocks, others, assume_unique=True)


def _find_places(blocks: NDArray[np.int64], some: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where some of the blocks stand among all."""
    return np.arange(some.size) if blocks.size == some.size else np.searchsorted(blocks, some)


def _order(point: str) -> list[tuple[float, str]]:
    return [(positive_number(value) or 0.0, value) for value in parse_point(point).values()]


def _find(phases: Sequence[Phase], name: str) -> Phase:
    for phase in phases:
        if phase.name == name:
            return phase
    return _NO_PHASE


def differing(one: Digests, other: Digests) -> tuple[str, ...]:
    """Digests that both have and that differ; ``host`` has no image, which the report flags."""
    return () if one == other else _differing(one, other)


@lru_cache(maxsize=256)
def _differing(one: Digests, other: Digests) -> tuple[str, ...]:
    here, there = ({RUN_ORDER: SEQUENTIAL, **dict(found)} for found in (one, other))
    return tuple(sorted(key for key in here.keys() & there.keys() if here[key] != there[key]))
