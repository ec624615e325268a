"""Drift and warm-up: whether a session's figures moved while it ran. Reported, not corrected. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kit.analysis.runs.run_table import Key, Runs
from kit.analysis.stats import estimators
from kit.analysis.stats.estimate import exp
from kit.analysis.stats.estimators import Floats

LEVEL = 0.05
#: The first round is an outlier if it lies N robust standard deviations from the others, ``_OTHERS`` or more (Iglewicz
#: and Hoaglin 1993, the modified z score).
FAR, _OTHERS = 3.5, 5
MACHINE = "machine"


@dataclass(frozen=True)
class Drift:
    """A trend over the rounds."""

    #: ``machine``: equal for all arms, and rounds cancel it; or the arm whose ratio to its baseline moves.
    what: str
    point: str
    rounds: int
    per_round: float  # factor from one round to the next
    p: float  # probability of as clear a trend at random
    found: bool  # whether p is small enough for the number of trends tested
    #: Factor between the first round and the others; None if the first is no outlier.
    warm_up: float | None


def drifts(runs: Runs, baselines: Sequence[tuple[str, str]]) -> tuple[Drift, ...]:
    """Return the machine's drift and that of every arm's ratio, over the whole run. Empty below 4 rounds, and for
    unpaired runs, which have no common order."""
    if runs.unpaired:
        return ()
    series: list[tuple[str, str, Floats]] = []
    for point in runs.points:
        pairs = [((arm, point), (base, point)) for arm, base in baselines]
        pairs = [pair for pair in pairs if runs.has(pair[0]) and runs.has(pair[1])]
        keys = list(dict.fromkeys(key for pair in pairs for key in pair))
        if len(keys) > 1:
            series.append((MACHINE, point, np.mean(_logs(runs, keys), axis=0)))
        for arm, base in pairs:
            logs = _logs(runs, [arm, base])
            series.append((arm[0], point, logs[0] - logs[1]))
    trends = [(what, point, values, estimators.find_trend(values)) for what, point, values in series]
    looked = sum(trend is not None for *_, trend in trends)
    return tuple(
        Drift(
            what, point, int(values.size), exp(trend.slope), trend.p,
            trend.p < LEVEL / looked, _warm_up(values),
        )
        for what, point, values, trend in trends
        if trend
    )  # fmt: skip


def _logs(runs: Runs, keys: Sequence[Key]) -> Floats:
    phase = runs.phases(keys)[-1]
    places = runs.common(keys)
    values = np.array([runs.values(key, phase, "real")[place] for key, place in zip(keys, places, strict=True)])
    usable: Floats = np.log(values[:, (values > 0).all(axis=0)])
    return usable


def _warm_up(values: Floats) -> float | None:
    later = values[1:]
    if later.size < _OTHERS:
        return None
    away = float(values[0] - np.median(later))
    spread = 1.4826 * float(np.median(np.abs(later - np.median(later))))
    return exp(away) if abs(away) > FAR * spread > 0 else None
