"""Drift and warm-up: whether a session's figures moved while it ran. Reported, not corrected. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kit.analysis import stats
from kit.analysis.columns import Key, Runs
from kit.analysis.stats import Floats

LEVEL = 0.05
#: The first block stands out if it lies so many robust standard deviations from the others, of which there must be
#: ``_OTHERS`` (Iglewicz and Hoaglin 1993, the modified z score).
FAR, _OTHERS = 3.5, 5
MACHINE = "machine"


@dataclass(frozen=True)
class Drift:
    """A trend over the blocks. ``what``: ``machine`` (all arms alike: blocks cancel it) or the arm whose ratio to its
    baseline moves (nothing cancels that). ``per_block``: factor from one block to the next. ``p``: chance of as clear
    a trend where there is none; ``found`` allows for the number of trends that were looked for. ``warm_up``: the first
    block differs from the rest by this factor, None where it does not stand out."""

    what: str
    point: str
    blocks: int
    per_block: float
    p: float
    found: bool
    warm_up: float | None


def drifts(runs: Runs, baselines: Sequence[tuple[str, str]], metric: str = "real") -> tuple[Drift, ...]:
    """The machine's drift, and that of every arm's ratio, over the whole run. Empty below 4 blocks."""
    series: list[tuple[str, str, Floats]] = []
    for point in runs.points:
        pairs = [((arm, point), (base, point)) for arm, base in baselines]
        pairs = [pair for pair in pairs if runs.has(pair[0]) and runs.has(pair[1])]
        keys = list(dict.fromkeys(key for pair in pairs for key in pair))
        if len(keys) > 1:
            series.append((MACHINE, point, np.mean(_logs(runs, keys, metric), axis=0)))
        for arm, base in pairs:
            logs = _logs(runs, [arm, base], metric)
            series.append((arm[0], point, logs[0] - logs[1]))
    trends = [(what, point, values, stats.find_trend(values)) for what, point, values in series]
    looked = sum(trend is not None for *_, trend in trends)
    return tuple(
        Drift(
            what, point, int(values.size), stats.exp(trend.slope), trend.p,
            trend.p < LEVEL / looked, _warm_up(values),
        )
        for what, point, values, trend in trends
        if trend
    )  # fmt: skip


def _logs(runs: Runs, keys: Sequence[Key], metric: str) -> Floats:
    phase = runs.phases(keys)[-1]
    places = runs.common(keys)
    values = np.array([runs.values(key, phase, metric)[place] for key, place in zip(keys, places, strict=True)])
    usable: Floats = np.log(values[:, (values > 0).all(axis=0)])
    return usable


def _warm_up(values: Floats) -> float | None:
    rest = values[1:]
    if rest.size < _OTHERS:
        return None
    away = float(values[0] - np.median(rest))
    spread = 1.4826 * float(np.median(np.abs(rest - np.median(rest))))
    return stats.exp(away) if abs(away) > FAR * spread > 0 else None
