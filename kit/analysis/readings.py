"""What statistics need of samples, read in one walk: columns of figures, and numbers for what repeats. Pure.

A million samples fit into no processor's cache, and to walk through them takes longer than what is done there. So
everything is read of a few runs while they are at hand, and of no run twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kit.analysis.stats import Floats
from kit.model.metric import COMPARED, MEASURED
from kit.model.sample import Sample

Key = tuple[str, str]  # arm, point
Digests = tuple[tuple[str, str], ...]
Places = NDArray[np.int64]
#: What is read of a phase: beside what is compared, what every analysis asks for, the ladder's debts and a covariate.
FIGURES = (*(name for name in COMPARED if name in MEASURED), "flush_cpu", "steal")
#: And of a run.
SPINS = ("calibration_before", "calibration_after", "memory_before", "memory_after")
#: The least and the most that a figure may be: far beyond what anything measures, and their squares are floats still.
_LEAST, _MOST = 1e-100, 1e100
_SLICE = 2_000

_OF_PHASE, _OF_RUN = attrgetter(*FIGURES), attrgetter(*SPINS)
_KEY, _BLOCK, _DIGESTS = attrgetter("arm", "point"), attrgetter("block"), attrgetter("digests")
_PHASES, _NAME, _REPORTED, _TASKS = map(attrgetter, ("phases", "name", "reported", "tasks"))


@dataclass(frozen=True)
class Readings:
    """Of runs that succeeded, in the order given. ``keys``, ``digests`` and ``shapes`` (the names of a run's phases)
    hold what there is, ``key``, ``digest`` and ``shape`` the number of each run's. ``figures``: FIGURES x phases, those
    of a run one after the other from ``first`` on; ``spins``: SPINS x runs. ``reported``, ``tasks``: if any phase has
    such. ``marked``: places of runs that are flagged, or repeat another."""

    runs: Sequence[Sample]
    keys: tuple[Key, ...]
    digests: tuple[Digests, ...]
    shapes: tuple[tuple[str, ...], ...]
    key: Places
    digest: Places
    shape: Places
    block: Places
    first: Places
    figures: Floats
    spins: Floats
    reported: bool
    tasks: bool
    marked: Sequence[int]


def read(samples: Iterable[Sample], repetitions: bool = True) -> Readings:
    """``repetitions``: those among them, too."""
    every = samples if isinstance(samples, Sequence) else list(samples)
    walk = _Walk()
    for at in range(0, len(every), _SLICE):
        part = every[at : at + _SLICE]
        counted = [item for item in part if item.status == "ok" and item.counts and item.phases]
        walk.add(counted if repetitions else [item for item in counted if item.repeats is None])
    return walk.readings()


@dataclass
class _Walk:
    """What has been read so far; a dictionary numbers what it is asked for as it comes."""

    runs: list[Sample] = field(default_factory=list)
    keys: dict[Key, int] = field(default_factory=lambda: defaultdict(count().__next__))
    digests: dict[Digests, int] = field(default_factory=lambda: defaultdict(count().__next__))
    shapes: dict[tuple[str, ...], int] = field(default_factory=lambda: defaultdict(count().__next__))
    numbers: list[Places] = field(default_factory=list)  # key, digest, shape, block, phases x runs
    figures: list[Floats] = field(default_factory=list)
    spins: list[Floats] = field(default_factory=list)
    reported: bool = False
    tasks: bool = False
    marked: list[int] = field(default_factory=list)

    def add(self, runs: Sequence[Sample]) -> None:
        phases = list(map(_PHASES, runs))
        flat = list(chain.from_iterable(phases))
        lengths = list(map(len, phases))
        if len(set(lengths)) == 1:
            names: Iterable[tuple[str, ...]] = zip(*[map(_NAME, flat)] * lengths[0], strict=True)
        else:
            names = (tuple(map(_NAME, found)) for found in phases)
        columns = (
            map(self.keys.__getitem__, map(_KEY, runs)),
            map(self.digests.__getitem__, map(_DIGESTS, runs)),
            map(self.shapes.__getitem__, names),
            map(_BLOCK, runs),
            lengths,
        )
        self.numbers.append(np.array([np.fromiter(column, np.int64, len(runs)) for column in columns]))
        self.figures.append(_columns(_OF_PHASE, len(FIGURES), flat))
        self.spins.append(_columns(_OF_RUN, len(SPINS), runs))
        self.reported = self.reported or any(map(_REPORTED, flat))
        self.tasks = self.tasks or any(map(_TASKS, flat))
        begin = len(self.runs)
        self.marked += [i for i, item in enumerate(runs, begin) if item.flags or item.repeats is not None]
        self.runs += runs

    def readings(self) -> Readings:
        key, digest, shape, block, phases = _joined(self.numbers, 5, np.int64)
        return Readings(
            self.runs, tuple(self.keys), tuple(self.digests), tuple(self.shapes),
            key, digest, shape, block, np.cumsum(phases) - phases,
            _joined(self.figures, len(FIGURES), np.float64), _joined(self.spins, len(SPINS), np.float64),
            self.reported, self.tasks, self.marked,
        )  # fmt: skip


def _columns(figures: Callable[[Any], tuple[Any, ...]], width: int, things: Sequence[object]) -> Floats:
    try:
        flat = np.fromiter(chain.from_iterable(map(figures, things)), float, width * len(things))
    except TypeError:  # a None, for what was not measured: this takes longer
        flat = np.array(list(map(figures, things)), float).ravel()
    return plausible(flat.reshape(-1, width).T)


def _joined(parts: list[Any], width: int, kind: type[np.generic]) -> NDArray[Any]:
    """Columns of all slices; the list is emptied."""
    whole = np.concatenate([np.empty((width, 0), kind), *parts], axis=1)
    parts.clear()
    return whole


def plausible(values: Floats) -> Floats:
    """An imported file may hold any number: one beyond what can be measured is not measured, one below it is zero, and
    no sum, square or ratio of the rest leaves the floats."""
    size = np.abs(values)
    made: Floats = np.where(size > _MOST, np.nan, np.where(size < _LEAST, 0.0, values))
    return made
