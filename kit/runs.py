"""Runs that count, as arrays: the samples of a session turned on their side, for statistics over many. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from kit.sample import TOTAL, Phase, Sample
from kit.stats import Floats
from kit.sweep import parse_point, positive_number

Key = tuple[str, str]  # arm, point
_NO_PHASE = Phase("", "ok")
#: Metrics that are made of others, as sums: computed from the arrays of their parts.
_SUMS = {"cpu_total": ("cpu", "elsewhere"), "whole": ("real", "flush")}


class Runs:
    """All measured runs that succeeded, by arm and point, in the order of their blocks.

    A flagged run that has been repeated gives way to its repetition, which stands in a block of its own. Where a
    block holds an arm twice (an imported file may), the later run counts.
    """

    def __init__(self, samples: Iterable[Sample]) -> None:
        ok = [sample for sample in samples if sample.status == "ok" and sample.kind != "warmup"]
        repeated = {(sample.arm, sample.point, sample.repeats) for sample in ok if sample.repeats is not None}
        by_key: dict[Key, dict[int, Sample]] = {}
        for sample in ok:
            if sample.flags and (sample.arm, sample.point, sample.block) in repeated:
                continue
            by_key.setdefault((sample.arm, sample.point), {})[sample.block] = sample
        self._samples = {key: [found[block] for block in sorted(found)] for key, found in by_key.items()}
        self._blocks = {key: np.array(sorted(found), np.int64) for key, found in by_key.items()}
        self._phases: dict[tuple[Key, str], list[Phase]] = {}
        self._values: dict[tuple[Key, str, str], Floats] = {}

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
        shapes = {tuple(phase.name for phase in sample.phases) for key in keys for sample in self.samples(key)}
        names = dict.fromkeys(name for shape in sorted(shapes, key=len, reverse=True) for name in shape)
        return (*names, TOTAL) if any(len(shape) > 1 for shape in shapes) else tuple(names)

    def values(self, key: Key, phase: str, metric: str) -> Floats:
        """The metric in every run of the arm, in the order of ``blocks``; NaN where it was not measured."""
        cached = (key, phase, metric)
        if cached not in self._values:
            self._values[cached] = self._read(key, phase, metric)
        return self._values[cached]

    def _read(self, key: Key, phase: str, metric: str) -> Floats:
        if metric in _SUMS:
            first, second = (self.values(key, phase, part) for part in _SUMS[metric])
            return first + second
        if phase == TOTAL:
            parts = [self.values(key, name, metric) for name in self.phases([key]) if name != TOTAL]
            return np.sum(parts, axis=0) if parts else np.empty(0)
        return np.array(list(map(attrgetter(metric), self._phase(key, phase))), float)

    def _phase(self, key: Key, name: str) -> list[Phase]:
        if (key, name) not in self._phases:
            self._phases[key, name] = [_find(sample.phases, name) for sample in self.samples(key)]
        return self._phases[key, name]

    def attribute(self, key: Key, read: str) -> Floats:
        """A figure of the whole run, for example ``calibration_before``; NaN where there is none."""
        return np.array(list(map(attrgetter(read), self.samples(key))), float)

    def common(self, keys: Sequence[Key]) -> tuple[NDArray[np.int64], ...]:
        """For each arm the positions of those runs whose blocks hold all the arms, and runs that may be compared."""
        shared = self.blocks(keys[0])
        for key in keys[1:]:
            shared = np.intersect1d(shared, self.blocks(key), assume_unique=True)
        places = [np.searchsorted(self.blocks(key), shared) for key in keys]
        alike = self._alike(keys, places)
        return tuple(place[alike] for place in places)

    def _alike(self, keys: Sequence[Key], places: Sequence[NDArray[np.int64]]) -> NDArray[np.bool_]:
        found = [[self.samples(key)[i].digests for i in place] for key, place in zip(keys, places, strict=True)]
        return np.array(
            [not any(differing(row[0], other) for other in row[1:]) for row in zip(*found, strict=True)], bool
        )


def _order(point: str) -> list[tuple[float, str]]:
    return [(positive_number(value) or 0.0, value) for value in parse_point(point).values()]


def _find(phases: Sequence[Phase], name: str) -> Phase:
    for phase in phases:
        if phase.name == name:
            return phase
    return _NO_PHASE


Digests = tuple[tuple[str, str], ...]


def differing(one: Digests, other: Digests) -> tuple[str, ...]:
    """Digests that both have and that differ; ``host`` has no image, which the report flags."""
    return () if one == other else _differing(one, other)


@lru_cache(maxsize=256)
def _differing(one: Digests, other: Digests) -> tuple[str, ...]:
    here, there = dict(one), dict(other)
    return tuple(sorted(key for key in here.keys() & there.keys() if here[key] != there[key]))
