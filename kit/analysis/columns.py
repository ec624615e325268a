"""Runs that count, as arrays: the samples of a session turned on their side, for statistics over many. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kit.analysis.stats import Floats
from kit.model.metric import COMPARED, MEASURED, described
from kit.model.sample import TOTAL, Phase, Sample
from kit.model.sweep import parse_point, positive_number
from kit.parsers.figure import Reported
from kit.parsers.task import BuildTask

Key = tuple[str, str]  # arm, point
Digests = tuple[tuple[str, str], ...]
Made = TypeVar("Made")
_NO_PHASE = Phase("", "ok")
_PHASES, _NAME, _REPORTED, _TASKS, _DIGESTS = map(attrgetter, ("phases", "name", "reported", "tasks", "digests"))
#: The least and the most that a figure may be: far beyond what anything measures, and their squares are floats still.
_LEAST, _MOST = 1e-100, 1e100


#: What is read of a phase at once: walking over a million of them takes longer than what is read there. Beside what is
#: compared, what every analysis asks for: the ladder's debts, and a covariate.
_TOGETHER = (*(name for name in COMPARED if name in MEASURED), "flush_cpu", "steal")
_COMPARED = attrgetter(*_TOGETHER)
#: And of a run.
_SPINS = ("calibration_before", "calibration_after", "memory_before", "memory_after")
_READ_SPINS = attrgetter(*_SPINS)
_SLICE = 10_000


def _columns(read: Callable[[Any], tuple[object, ...]], width: int, things: Sequence[object]) -> Floats:
    """What is read of each thing, a row for each of the figures; a slice at a time, so that it takes little memory."""
    made = np.empty((width, len(things)))
    for at in range(0, len(things), _SLICE):
        part = things[at : at + _SLICE]
        try:
            flat = np.fromiter(chain.from_iterable(map(read, part)), float, width * len(part))
        except TypeError:  # a None, for what was not measured: this takes longer
            flat = np.array(list(map(read, part)), float).ravel()
        made[:, at : at + _SLICE] = flat.reshape(-1, width).T
    return _plausible(made)


def _plausible(values: Floats) -> Floats:
    """An imported file may hold any number: one beyond what can be measured is not measured, one below it is zero, and
    no sum, square or ratio of the rest leaves the floats."""
    size = np.abs(values)
    made: Floats = np.where(size > _MOST, np.nan, np.where(size < _LEAST, 0.0, values))
    return made


class Runs:
    """All measured runs that succeeded, by arm and point, in the order of their blocks.

    A flagged run that has been repeated gives way to its repetition, which stands in a block of its own; without
    ``repetitions`` all runs are as they were planned, flagged or not. Where a block holds an arm twice (an imported
    file may), the later run counts.
    """

    def __init__(self, samples: Iterable[Sample], repetitions: bool = True) -> None:
        ok = [sample for sample in samples if sample.status == "ok" and sample.kind != "warmup" and sample.phases]
        if not repetitions:
            ok = [sample for sample in ok if sample.repeats is None]
        repeated = {(sample.arm, sample.point, sample.repeats) for sample in ok if sample.repeats is not None}
        by_key: dict[Key, dict[int, Sample]] = defaultdict(dict)
        for sample in ok:
            if sample.flags and (sample.arm, sample.point, sample.block) in repeated:
                continue
            by_key[sample.arm, sample.point][sample.block] = sample
        self._blocks = {key: np.array(sorted(found), np.int64) for key, found in by_key.items()}
        self._samples = {key: list(map(by_key[key].__getitem__, self._blocks[key].tolist())) for key in by_key}
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
        return tuple(sorted({point for _, point in self._samples}, key=_order))

    def has(self, key: Key) -> bool:
        return key in self._samples

    def samples(self, key: Key) -> Sequence[Sample]:
        return self._samples.get(key, ())

    def blocks(self, key: Key) -> NDArray[np.int64]:
        return self._blocks.get(key, np.empty(0, np.int64))

    def phases(self, keys: Iterable[Key]) -> tuple[str, ...]:
        """Names of the phases of these arms in order, ``total`` last where a run has more than one."""
        shapes = {shape for key in keys for shape in self.once(self._shapes, key)}
        names = dict.fromkeys(name for shape in sorted(shapes, key=len, reverse=True) for name in shape)
        return (*names, TOTAL) if any(len(shape) > 1 for shape in shapes) else tuple(names)

    def _shapes(self, key: Key) -> set[tuple[str, ...]]:
        every = self.once(self._phases, key)
        shapes: set[tuple[str, ...]] = set()
        lengths = set(map(len, every))
        for length in lengths:  # by columns: a run at a time, a million take a second
            listed = [phases for phases in every if len(phases) == length] if len(lengths) > 1 else every
            shapes |= set(zip(*(map(_NAME, map(itemgetter(i), listed)) for i in range(length)), strict=True))
        return shapes

    def _phases(self, key: Key) -> list[tuple[Phase, ...]]:
        return list(map(_PHASES, self.samples(key)))

    def values(self, key: Key, phase: str, metric: str) -> Floats:
        """The metric, the kit's own or one that the workload reports, in every run of the arm, in the order of
        ``blocks``; NaN where it was not measured."""
        if metric in self.reported([key], phase):
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
        if metric in _TOGETHER:
            found: Floats = self.once(self._compared, key, phase)[_TOGETHER.index(metric)]
            return found
        return _plausible(np.array(list(map(attrgetter(metric), self.once(self._phase, key, phase))), float))

    def _compared(self, key: Key, phase: str) -> Floats:
        """Metrics that arms are compared by, x runs."""
        return _columns(_COMPARED, len(_TOGETHER), self.once(self._phase, key, phase))

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
        if phase != TOTAL:
            for figure in chain.from_iterable(map(_REPORTED, self.once(self._phase, key, phase))):
                found.setdefault(figure.name, figure)
        return found

    def figure(self, key: Key, phase: str, name: str) -> Floats:
        """A reported figure in every run of the arm; NaN where a run did not report it."""
        return self.once(self._figure, key, phase, name)

    def _figure(self, key: Key, phase: str, name: str) -> Floats:
        listed = [{item.name: item.value for item in found.reported} for found in self.once(self._phase, key, phase)]
        return _plausible(np.array([values.get(name, np.nan) for values in listed], float))

    def tasks(self, key: Key, phase: str) -> list[tuple[BuildTask, ...]]:
        """What the phase consists of, in every run of the arm; nothing where the build tool has not recorded it."""
        return list(map(_TASKS, self.once(self._phase, key, phase)))

    def _phase(self, key: Key, name: str) -> list[Phase]:
        shapes = self.once(self._shapes, key)
        if len(shapes) == 1:
            names = next(iter(shapes))
            if name in names:
                return list(map(itemgetter(names.index(name)), self.once(self._phases, key)))
        return [_find(phases, name) for phases in self.once(self._phases, key)]

    def attribute(self, key: Key, name: str) -> Floats:
        """One of ``_SPINS`` in every run; NaN where there is none."""
        found: Floats = self.once(self._spins, key)[_SPINS.index(name)]
        return found

    def _spins(self, key: Key) -> Floats:
        return _columns(_READ_SPINS, len(_SPINS), self.samples(key))

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

    def _alike(self, one: Key, here: NDArray[np.int64], other: Key, there: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the digests of the runs agree, looked at once for each two that occur."""
        known = list(self.once(self._digests))
        if len(known) < 2:
            return np.ones(here.size, bool)
        first, second = self.once(self._marks, one)[here], self.once(self._marks, other)[there]
        good: NDArray[np.bool_] = first == second
        for a, b in {(int(a), int(b)) for a, b in zip(first[~good], second[~good], strict=True)}:
            good |= (first == a) & (second == b) & (not differing(known[a], known[b]))
        return good

    def _digests(self) -> dict[Digests, int]:
        """All digests that occur, numbered."""
        found = dict.fromkeys(map(_DIGESTS, chain.from_iterable(self._samples.values())))
        return {digests: number for number, digests in enumerate(found)}

    def _marks(self, key: Key) -> NDArray[np.int64]:
        numbers = self.once(self._digests)
        return np.array(list(map(numbers.__getitem__, map(_DIGESTS, self.samples(key)))), np.int64)


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
    here, there = dict(one), dict(other)
    return tuple(sorted(key for key in here.keys() & there.keys() if here[key] != there[key]))
