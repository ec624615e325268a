"""Runs that count, as arrays: the samples of a session as columns, for statistics over many. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kit.analysis.runs.readings import FIGURES, SPINS, Digests, Places, Readings, plausible, read
from kit.analysis.runs.readings import Key as Key
from kit.analysis.stats.estimators import Floats
from kit.model.metric import GREATEST, LEVEL, MEASURED, METRICS, SUM, described
from kit.model.sample import IMPORTED, RUN_ORDER, SEQUENTIAL, TOTAL, UNPAIRED, Phase, Sample
from kit.model.sweep import parse_point, positive_number
from kit.parsers.figure import Reported
from kit.parsers.task import BuildTask

Made = TypeVar("Made")
#: A metric of the whole run from those of its phases, phases x runs.
_WHOLE: Mapping[str, Callable[[Sequence[Floats]], Floats]] = {
    SUM: lambda parts: np.sum(parts, axis=0),
    GREATEST: np.fmax.reduce,
    LEVEL: lambda parts: np.max(np.cumsum(parts, axis=0), axis=0),
}
_NO_PHASE = Phase("", "ok")


class Runs:
    """All measured runs that succeeded, by arm and point, in the order of their rounds.

    A flagged run is replaced by its rerun, which has a round of its own. Without ``repetitions`` all planned runs
    count, flagged or not. If a round contains an arm twice (possible in an imported file), the later run counts."""

    def __init__(self, samples: Iterable[Sample], repetitions: bool = True) -> None:
        self._all = read(samples, repetitions)
        gone = _repeated(self._all)
        marked = (self._all.runs[place] for place in self._all.marked)
        self._reruns = {run.round: run.rerun_of for run in marked if run.rerun_of is not None}
        self._places = {  # positions of an arm's runs at a point among all
            key: places
            for number, key in enumerate(self._all.keys)
            if (places := _in_order(np.flatnonzero(self._all.key == number), self._all.round, gone)).size
        }
        self._cache: dict[tuple[object, ...], Any] = {}

    def once(self, make: Callable[..., Made], *arguments: object) -> Made:
        """Return ``make(*arguments)``, computed once and cached with the runs."""
        where = (make, *arguments)
        if where not in self._cache:
            self._cache[where] = make(*arguments)
        value: Made = self._cache[where]
        return value

    @property
    def points(self) -> tuple[str, ...]:
        """Return the points in the order of their values, numerically if they are numbers."""
        return tuple(sorted({point for _, point in self._places}, key=_order))

    def has(self, key: Key) -> bool:
        return key in self._places

    def ran(self, arm: str) -> bool:
        """Return whether a run of the arm counts, at any point."""
        return any(self.has((arm, point)) for point in self.points)

    def _at(self, key: Key) -> Places:
        return self._places.get(key, np.empty(0, np.int64))

    def samples(self, key: Key) -> Sequence[Sample]:
        return self.once(self._runs, key)

    def _runs(self, key: Key) -> list[Sample]:
        return list(map(self._all.runs.__getitem__, self._at(key).tolist()))

    def rounds(self, key: Key) -> NDArray[np.int64]:
        return self.once(self._rounds, key)

    def _rounds(self, key: Key) -> NDArray[np.int64]:
        return self._all.round[self._at(key)]

    def phases(self, keys: Iterable[Key]) -> tuple[str, ...]:
        """Return the names of these arms' phases in order, ``total`` last if a run has more than one."""
        shapes = {shape for key in keys for shape in self.once(self._shapes, key)}
        names = dict.fromkeys(name for shape in sorted(shapes, key=len, reverse=True) for name in shape)
        return (*names, TOTAL) if any(len(shape) > 1 for shape in shapes) else tuple(names)

    def _shapes(self, key: Key) -> set[tuple[str, ...]]:
        return {self._all.shapes[number] for number in np.unique(self._all.shape[self._at(key)]).tolist()}

    def values(self, key: Key, phase: str, metric: str) -> Floats:
        """Return the metric in every run of the arm, in the order of ``rounds``; NaN if not measured. The metric is the
        kit's own or reported by the workload."""
        if self._all.reported and metric in self.reported([key], phase):
            return self.figure(key, phase, metric)
        return self.once(self._read, key, phase, metric)

    def _read(self, key: Key, phase: str, metric: str) -> Floats:
        definition = described(metric)
        if not definition.measured:
            values = self._sum(key, phase, definition.parts)
            if definition.otherwise:
                values = np.where(np.isfinite(values), values, self._sum(key, phase, definition.otherwise))
            if definition.over:
                under = self.values(key, phase, definition.over)
                values = np.divide(values, under, out=np.full(values.shape, np.nan), where=under > 0)
            return values
        if phase == TOTAL:
            parts = [self.values(key, name, metric) for name in self.phases([key]) if name != TOTAL]
            if parts:  # else a workload's only phase has that name
                return _WHOLE[definition.whole](parts)
        if metric not in MEASURED:  # a figure that other arms report, or did at other points
            return self.figure(key, phase, metric)
        if metric in FIGURES:
            rows = self.once(self._rows, key, phase)
            column = self._all.figures[FIGURES.index(metric)]
            return np.where(rows < 0, np.nan, column[rows]) if (rows < 0).any() else column[rows]
        return plausible(np.array(list(map(attrgetter(metric), self.once(self._phase, key, phase))), float))

    def _rows(self, key: Key, phase: str) -> Places:
        """Return the position of each run's phase among all; -1 if the run has no phase of that name."""
        places = self._at(key)
        rows = np.full(places.size, -1)
        for number, names in enumerate(self._all.shapes):
            if phase in names:
                same_shape = self._all.shape[places] == number
                rows[same_shape] = self._all.first[places[same_shape]] + names.index(phase)
        return rows

    def _sum(self, key: Key, phase: str, parts: Sequence[str]) -> Floats:
        return np.sum([self.values(key, phase, part) for part in parts], axis=0)  # type: ignore[no-any-return]

    def reported(self, keys: Iterable[Key], phase: str) -> dict[str, Reported]:
        """Return the figures that the workload reports of a phase, in its order, each with one example. One with the
        name of a metric (possible in an imported file) is ignored."""
        figures: dict[str, Reported] = {}
        for key in keys:
            figures |= {
                name: figure for name, figure in self.once(self._reported, key, phase).items() if name not in figures
            }
        return figures

    def _reported(self, key: Key, phase: str) -> dict[str, Reported]:
        figures: dict[str, Reported] = {}
        if phase != TOTAL and self._all.reported:
            for figure in chain.from_iterable(run_phase.reported for run_phase in self.once(self._phase, key, phase)):
                if figure.name not in METRICS:
                    figures.setdefault(figure.name, figure)
        return figures

    def figure(self, key: Key, phase: str, name: str) -> Floats:
        """Return a reported figure in every run of the arm; NaN if a run did not report it."""
        return self.once(self._figure, key, phase, name)

    def _figure(self, key: Key, phase: str, name: str) -> Floats:
        listed = [
            {figure.name: figure.value for figure in run_phase.reported}
            for run_phase in self.once(self._phase, key, phase)
        ]
        return plausible(np.array([values.get(name, np.nan) for values in listed], float))

    def tasks(self, key: Key, phase: str) -> list[tuple[BuildTask, ...]]:
        """Return the phase's tasks in every run of the arm; empty if the build tool did not record them."""
        if not self._all.tasks:
            return [()] * self._at(key).size
        return [run_phase.tasks for run_phase in self.once(self._phase, key, phase)]

    def _phase(self, key: Key, name: str) -> list[Phase]:
        return [_find(sample.phases, name) for sample in self.samples(key)]

    def attribute(self, key: Key, name: str) -> Floats:
        """Return one of SPINS in every run; NaN if not measured."""
        spins: Floats = self._all.spins[SPINS.index(name)][self._at(key)]
        return spins

    def shared_rounds(self, keys: Sequence[Key]) -> NDArray[np.int64]:
        """Return the rounds that contain all the arms. A rerun replaces its round. It is no further round of arms that
        it contains only to be compared with a disturbed one: they would have an interval after one round."""
        shared = self.rounds(keys[0])
        for key in keys[1:]:
            shared = in_both(shared, self.rounds(key))
        further = [number for number, replaced in self._reruns.items() if replaced in shared]
        return np.setdiff1d(shared, further) if further else shared

    def common(self, keys: Sequence[Key]) -> tuple[NDArray[np.int64], ...]:
        """Return, for each arm, positions of the comparable runs in rounds that contain all the arms."""
        return self.once(self._common, *keys)

    def _common(self, *keys: Key) -> tuple[NDArray[np.int64], ...]:
        shared = self.shared_rounds(keys)
        places = [_find_places(self.rounds(key), shared) for key in keys]
        alike = np.ones(shared.size, bool)
        for key, place in zip(keys[1:], places[1:], strict=True):
            alike &= self._alike(keys[0], places[0], key, place)
        return tuple(place[alike] for place in places)

    def interleaved(self, key: Key) -> bool:
        """Return whether runs of the arm were interleaved with others."""
        return not self.once(self._orders, key) <= {SEQUENTIAL, UNPAIRED}

    @property
    def unpaired(self) -> bool:
        """Return whether the runs are independent samples: the number of a round says nothing of them."""
        return self.once(self._is_unpaired)

    def _is_unpaired(self) -> bool:
        return any(UNPAIRED in self.once(self._orders, key) for key in self._places)

    def _orders(self, key: Key) -> set[str]:
        numbers = np.unique(self._all.digest[self._at(key)]).tolist()
        return {dict(self._all.digests[number]).get(RUN_ORDER, SEQUENTIAL) for number in numbers}

    @property
    def labelled(self) -> bool:
        """Return whether arms are labels of imported figures, which say nothing of drivers and filesystems."""
        return bool(self._all.runs) and self._all.runs[0].kind == IMPORTED

    def _alike(
        self, first_key: Key, here: NDArray[np.int64], second_key: Key, there: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return whether the digests of the runs agree; each distinct pair is compared once."""
        digests = self._all.digests
        if len(digests) < 2:
            return np.ones(here.size, bool)
        first, second = (
            self._all.digest[self._at(key)][place] for key, place in ((first_key, here), (second_key, there))
        )
        good: NDArray[np.bool_] = first == second
        for a, b in {(int(a), int(b)) for a, b in zip(first[~good], second[~good], strict=True)}:
            good |= (first == a) & (second == b) & (not differing(digests[a], digests[b]))
        return good


def _repeated(all_runs: Readings) -> list[int]:
    """Return the places of the flagged runs that have a rerun."""
    marked = [(place, all_runs.runs[place]) for place in all_runs.marked]
    repeated = {(run.arm, run.point, run.rerun_of) for _, run in marked if run.rerun_of is not None}
    return [place for place, run in marked if run.flags and (run.arm, run.point, run.round) in repeated]


def _in_order(places: Places, round_: Places, gone: Sequence[int]) -> Places:
    """Return runs by round without the removed ones; the later of two in one round."""
    remaining = places[~np.isin(places, gone)] if gone else places
    ordered = remaining[np.argsort(round_[remaining], kind="stable")]
    rounds = round_[ordered]
    return ordered[np.append(rounds[1:] != rounds[:-1], True)] if ordered.size else ordered


def in_both(rounds: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rounds of the one that are among those of the other, both in order; usually all of them."""
    return rounds if np.array_equal(rounds, others) else np.intersect1d(rounds, others, assume_unique=True)


def _find_places(rounds: NDArray[np.int64], some: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of some of the rounds among all."""
    return np.arange(some.size) if rounds.size == some.size else np.searchsorted(rounds, some)


def _order(point: str) -> list[tuple[float, str]]:
    return [(positive_number(value) or 0.0, value) for value in parse_point(point).values()]


def _find(phases: Sequence[Phase], name: str) -> Phase:
    for phase in phases:
        if phase.name == name:
            return phase
    return _NO_PHASE


def differing(ours: Digests, theirs: Digests) -> tuple[str, ...]:
    """Return the digests that both have and that differ. ``host`` has no image; the report flags this."""
    return () if ours == theirs else _differing(ours, theirs)


@lru_cache(maxsize=256)
def _differing(ours: Digests, theirs: Digests) -> tuple[str, ...]:
    here, there = ({RUN_ORDER: SEQUENTIAL, **dict(digests)} for digests in (ours, theirs))
    return tuple(sorted(key for key in here.keys() & there.keys() if here[key] != there[key]))
