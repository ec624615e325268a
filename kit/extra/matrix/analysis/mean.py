"""An arm's mean over the scenarios of a matrix. Pure.

A mean is the weighted geometric mean of the ratios, the one mean of normalised figures whose order does not depend on
the reference (Fleming and Wallace 1986, doi:10.1145/5666.5673). Its interval is Student's t of the mean logarithm
(``weighted``), simultaneous for all arms by Bonferroni (Dunn 1961). The simultaneous interval is not narrower than
what the cells' own simultaneous intervals make of it: those of sessions that chose their end are widened.
Scenarios are a fixed set: the interval says how well the mean of these scenarios is known on these machines, and not
what other builds cost. benchmarks/proofs/matrix.py shows how often it holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.stats import estimators
from kit.analysis.stats.estimate import REFERENCE, Estimate, Interval, Verdict, as_ratio, exp
from kit.analysis.stats.estimators import Centre
from kit.analysis.stats.variance_pooling import MANY
from kit.extra.matrix.analysis.cell import MatrixCell, ratio_of
from kit.extra.matrix.analysis.row import MatrixRow
from kit.extra.matrix.analysis.weighted import Common, weighted_half, weighted_mean


@dataclass(frozen=True)
class ArmMean:
    """An arm over the rows that count: scenarios, and each point of a sweep.

    ``ratio``: to the reference; its simultaneous interval is for all arms.
    ``scenarios``: how many of the ``of`` rows the arm has; a mean of fewer is of other rows than the rest. ``bare``:
    over bare on the arm's filesystem, None where one of the rows lacks it. ``space``, ``written``: to the reference,
    over as many rows as have figures, ``n`` of the interval."""

    arm: str
    verdict: Verdict
    scenarios: int
    of: int
    ratio: Estimate | None = None
    bare: Interval | None = None
    space: Interval | None = None
    written: Interval | None = None

    @property
    def complete(self) -> bool:
        return self.scenarios == self.of


def mean_of(arm: str, rows: Sequence[MatrixRow], family: int, margin: float) -> ArmMean:
    """Return the mean of an arm beside the reference. ``family``: number of arms whose intervals are simultaneous."""
    having = [(row.weight, cell) for row in rows if (cell := row.cell(arm)) and cell.measured]
    time = _over(having, "time")
    if time is None:
        return _made(arm, "", rows, len(having), None)
    halves = [(weight, cell.half_all) for weight, cell in having]
    together = as_ratio(interval_together(time, halves, family, [cell.common for _, cell in having]))
    ratio = Estimate(**vars(as_ratio(time.interval())), together=together, visible=_visible(having))
    verdict = ratio.judge(margin, n=min(cell.n for _, cell in having))
    return _made(arm, verdict, rows, len(having), ratio)


def _visible(having: Sequence[tuple[float, MatrixCell]]) -> float:
    """Return the ratio that bounds the mean of the sessions' controls, which are independent."""
    return exp(weighted_half([(weight, math.log(cell.visible)) for weight, cell in having]))


def interval_together(
    mean: Centre, halves: Sequence[tuple[float, float]], family: int, common: Sequence[Common] = ()
) -> Interval:
    """Return the simultaneous interval of a mean of logarithms. ``halves``: weight of each cell, and half width of its
    own simultaneous interval. ``common``: of each cell."""
    if mean.error is None:
        return mean.interval()
    quantile, lasting = (
        estimators.student_quantile(0.5 + estimators.family_confidence(family) / 2, degrees)
        for degrees in (mean.degrees, MANY)
    )
    shared = [(session, lasting * floor) for session, floor in common]
    half = max(quantile * mean.error, weighted_half(halves, shared))
    return Interval(mean.estimate, mean.estimate - half, mean.estimate + half, mean.n)


def reference_mean(arm: str, rows: Sequence[MatrixRow]) -> ArmMean:
    return _made(arm, REFERENCE, rows, len(rows), None)


def _made(arm: str, verdict: Verdict, rows: Sequence[MatrixRow], scenarios: int, ratio: Estimate | None) -> ArmMean:
    cells = [(row.weight, cell) for row in rows if (cell := row.cell(arm))]
    whole = len(cells) == len(rows) and all(cell.bare and cell.bare.error is not None for _, cell in cells)
    return ArmMean(
        arm, verdict, scenarios, len(rows), ratio,
        bare=ratio_of(_over(cells, "bare")) if whole else None,
        space=ratio_of(_over(cells, "space")),
        written=ratio_of(_over(cells, "written")),
    )  # fmt: skip


def _over(cells: Sequence[tuple[float, MatrixCell]], name: str) -> Centre | None:
    """Return the weighted mean of a ratio of those cells that have it with an error."""
    parts, common = [], []
    for weight, cell in cells:
        centre: Centre | None = getattr(cell, name)
        if centre and centre.error is not None:
            parts.append((weight, centre))
            common.append(cell.common)
    return weighted_mean(parts, common)
