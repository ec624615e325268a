"""Growth of a penalty with a swept parameter, for example with the number of parallel jobs. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kit.analysis.runs.compare import is_control
from kit.analysis.runs.run_table import Runs
from kit.analysis.stats import estimators, variance_pooling
from kit.analysis.stats.estimate import Interval, as_ratio
from kit.model.sweep import parse_point, positive_number


@dataclass(frozen=True)
class Growth:
    """By what factor the ratio of ``arm`` to ``baseline`` changes with each doubling of ``parameter``.

    In each round the slope of the log ratio over the parameter's binary logarithm is found by least squares;
    ``factor`` is the mean of these slopes with its 95 % interval, as a ratio, by the noise that all arms share. 1
    means: the penalty does not grow.
    """

    arm: str
    baseline: str
    phase: str
    metric: str
    parameter: str
    factor: Interval


def growths(runs: Runs, baselines: Sequence[tuple[str, str]]) -> tuple[Growth, ...]:
    """Return the growth for each arm and each swept parameter with positive numbers, over the whole run. Unpaired runs
    have none: slopes are those of rounds."""
    if runs.unpaired:
        return ()
    settings = {point: parse_point(point) for point in runs.points}
    all_growths = []
    for name in dict.fromkeys(name for values in settings.values() for name in values):
        numbers = {point: positive_number(values.get(name, "")) for point, values in settings.items()}
        positive = {point: number for point, number in numbers.items() if number is not None}
        if len(positive) == len(settings) and len(set(positive.values())) > 1:
            candidates = [_slopes(runs, pair, positive) for pair in baselines if not is_control(pair[0])]
            slopes = [slope for slope in candidates if slope]
            centres = variance_pooling.share([contrast for contrast, *_ in slopes], len(slopes))
            all_growths += [
                Growth(*pair, phase, "real", name, as_ratio(centre.interval()))
                for (_, pair, phase), centre in zip(slopes, centres, strict=True)
            ]
    return tuple(all_growths)


def _slopes(
    runs: Runs, pair: tuple[str, str], numbers: Mapping[str, float]
) -> tuple[variance_pooling.Contrast, tuple[str, str], str] | None:
    """Return the slope of each round, and the phase's name."""
    keys = [(arm, point) for point in numbers for arm in pair]
    if not all(runs.has(key) for key in keys):
        return None
    phase = runs.phases(keys)[-1]
    # The scenario's digest differs between points; the comparison has checked all digests within a point.
    shared = runs.shared_rounds(keys)
    values = np.array([runs.values(key, phase, "real")[np.searchsorted(runs.rounds(key), shared)] for key in keys])
    if not shared.size or not (values > 0).all():
        return None
    logs = np.log(values[0::2] / values[1::2]).T
    slopes = estimators.least_squares_slopes([math.log2(number) for number in numbers.values()], logs)
    return variance_pooling.Contrast(pair, estimators.robust_centre(slopes), alike=True), pair, phase
