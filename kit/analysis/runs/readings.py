"""Columns of figures read from samples in one pass, with a number for each repeated value. Pure.

A million samples exceed a processor's cache, and a pass takes longer than the work on them. So a pass reads
everything from a few runs while they are cached, and reads no run twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kit.analysis.stats.estimators import Floats
from kit.model.metric import COMPARED, MEASURED
from kit.model.sample import Sample

Key = tuple[str, str]  # arm, point
Digests = tuple[tuple[str, str], ...]
Places = NDArray[np.int64]
#: Figures read from a phase: compared ones, and those that analyses, the ladder's debts and covariates need.
FIGURES = (*(name for name in COMPARED if name in MEASURED), "flush_cpu", "steal")
#: Figures read from a run.
SPINS = ("calibration_before", "calibration_after", "memory_before", "memory_after")
#: The least and greatest plausible figure: far beyond any measurement, and their squares are finite floats.
_LEAST, _MOST = 1e-100, 1e100
_SLICE = 2_000

_OF_PHASE, _OF_RUN = attrgetter(*FIGURES), attrgetter(*SPINS)
_KEY, _BLOCK, _DIGESTS = attrgetter("arm", "point"), attrgetter("round"), attrgetter("digests")
_PHASES, _NAME, _REPORTED, _TASKS = map(attrgetter, ("phases", "name", "reported", "tasks"))


@dataclass(frozen=True)
class Readings:
    """Runs that succeeded, in the order given."""

    runs: Sequence[Sample]
    keys: tuple[Key, ...]  # distinct values; ``key`` holds each run's index into them
    digests: tuple[Digests, ...]  # distinct values, indexed by ``digest``
    #: Distinct tuples of the names of a run's phases, indexed by ``shape``.
    shapes: tuple[tuple[str, ...], ...]
    key: Places
    digest: Places
    shape: Places
    round: Places
    first: Places  # each run's first column of ``figures``
    figures: Floats  # FIGURES x phases, a run's phases in sequence
    spins: Floats  # SPINS x runs
    reported: bool  # whether any phase has a figure of the workload
    tasks: bool  # whether any phase has tasks
    marked: Sequence[int]  # places of flagged runs and of reruns


def read(samples: Iterable[Sample], repetitions: bool = True) -> Readings:
    """Return the readings of these samples. ``repetitions``: include reruns."""
    every = samples if isinstance(samples, Sequence) else list(samples)
    walk = _Walk()
    for at in range(0, len(every), _SLICE):
        part = every[at : at + _SLICE]
        counted = [sample for sample in part if sample.status == "ok" and sample.counts and sample.phases]
        walk.add(counted if repetitions else [sample for sample in counted if sample.rerun_of is None])
    return walk.readings()


@dataclass
class _Walk:
    """State of the pass; a dictionary numbers its keys as they are first looked up."""

    runs: list[Sample] = field(default_factory=list)
    keys: dict[Key, int] = field(default_factory=lambda: defaultdict(count().__next__))
    digests: dict[Digests, int] = field(default_factory=lambda: defaultdict(count().__next__))
    shapes: dict[tuple[str, ...], int] = field(default_factory=lambda: defaultdict(count().__next__))
    numbers: list[Places] = field(default_factory=list)  # key, digest, shape, round, phases x runs
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
            names = (tuple(map(_NAME, run_phases)) for run_phases in phases)
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
        self.marked += [i for i, run in enumerate(runs, begin) if run.flags or run.rerun_of is not None]
        self.runs += runs

    def readings(self) -> Readings:
        key, digest, shape, round_, phases = _joined(self.numbers, 5, np.int64)
        return Readings(
            self.runs, tuple(self.keys), tuple(self.digests), tuple(self.shapes),
            key, digest, shape, round_, np.cumsum(phases) - phases,
            _joined(self.figures, len(FIGURES), np.float64), _joined(self.spins, len(SPINS), np.float64),
            self.reported, self.tasks, self.marked,
        )  # fmt: skip


def _columns(figures: Callable[[Any], tuple[Any, ...]], width: int, records: Sequence[object]) -> Floats:
    try:
        flat = np.fromiter(chain.from_iterable(map(figures, records)), float, width * len(records))
    except TypeError:  # a None, for what was not measured: this takes longer
        flat = np.array(list(map(figures, records)), float).ravel()
    return plausible(flat.reshape(-1, width).T)


def _joined(parts: list[Any], width: int, kind: type[np.generic]) -> NDArray[Any]:
    """Return the columns of all slices joined, and empty the list."""
    whole = np.concatenate([np.empty((width, 0), kind), *parts], axis=1)
    parts.clear()
    return whole


def plausible(values: Floats) -> Floats:
    """Return figures with NaN above the plausible range, and 0 below. An imported file may hold any number. With these
    bounds, sums, squares and ratios remain finite floats."""
    size = np.abs(values)
    bounded: Floats = np.where(size > _MOST, np.nan, np.where(size < _LEAST, 0.0, values))
    return bounded
