"""How a penalty grows with a swept parameter, for example with the number of parallel jobs. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kit.analysis import pool, stats
from kit.analysis.columns import Runs, in_both
from kit.analysis.compare import is_control
from kit.model.sweep import parse_point, positive_number


@dataclass(frozen=True)
class Growth:
    """By what factor the ratio of ``arm`` to ``baseline`` changes with each doubling of ``parameter``.

    In each block the slope of the log ratio over the parameter's binary logarithm is found by least squares;
    ``factor`` is the mean of these slopes with its 95 % interval, as a ratio, by the noise that all arms share. 1
    means: the penalty does not grow.
    """

    arm: str
    baseline: str
    phase: str
    metric: str
    parameter: str
    factor: stats.Interval


def growths(runs: Runs, baselines: Sequence[tuple[str, str]], metric: str = "real") -> tuple[Growth, ...]:
    """For each arm and each swept parameter whose values are positive numbers, over the whole run."""
    settings = {point: parse_point(point) for point in runs.points}
    found = []
    for name in dict.fromkeys(name for values in settings.values() for name in values):
        numbers = {point: positive_number(values.get(name, "")) for point, values in settings.items()}
        known = {point: number for point, number in numbers.items() if number is not None}
        if len(known) == len(settings) and len(set(known.values())) > 1:
            made = [_slopes(runs, pair, known, metric) for pair in baselines if not is_control(pair[0])]
            slopes = [item for item in made if item]
            centres = pool.share([contrast for contrast, *_ in slopes], len(slopes))
            found += [
                Growth(*pair, phase, metric, name, stats.as_ratio(centre.interval()))
                for (_, pair, phase), centre in zip(slopes, centres, strict=True)
            ]
    return tuple(found)


def _slopes(
    runs: Runs, pair: tuple[str, str], numbers: Mapping[str, float], metric: str
) -> tuple[pool.Contrast, tuple[str, str], str] | None:
    """The slope of each block, and of which phase."""
    keys = [(arm, point) for point in numbers for arm in pair]
    if not all(runs.has(key) for key in keys):
        return None
    phase = runs.phases(keys)[-1]
    # The scenario's digest differs from point to point; within a point the comparison has looked at all of them.
    shared = runs.blocks(keys[0])
    for key in keys[1:]:
        shared = in_both(shared, runs.blocks(key))
    values = np.array([runs.values(key, phase, metric)[np.searchsorted(runs.blocks(key), shared)] for key in keys])
    if not shared.size or not (values > 0).all():
        return None
    logs = np.log(values[0::2] / values[1::2]).T
    slopes = stats.least_squares_slopes([math.log2(number) for number in numbers.values()], logs)
    centre = stats.robust_centre(slopes)
    alike = pool.near(centre.estimate) and pool.near(float(logs.mean()))
    return pool.Contrast(pair, centre, alike), pair, phase
