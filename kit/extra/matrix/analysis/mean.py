"""An arm's mean over the scenarios of a matrix. Pure.

A mean is the weighted geometric mean of the ratios, the one mean of normalised figures whose order does not depend on
the reference (Fleming and Wallace 1986, doi:10.1145/5666.5673). Its interval is Student's t of the mean logarithm
(``weighted_mean``), simultaneous for all arms by Bonferroni (Dunn 1961). The simultaneous interval is not narrower than
what the cells' own simultaneous intervals make of it: those of sessions that chose their end are widened.
Scenarios are a fixed set: the interval says how well the mean of these scenarios is known on these machines, and not
what other builds cost. benchmarks/proofs/matrix.py shows how often it holds.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.stats import estimators
from kit.analysis.stats.estimate import REFERENCE, Estimate, Interval, Verdict, as_ratio, exp
from kit.analysis.stats.estimators import CONFIDENCE, Centre, student_quantile
from kit.analysis.stats.variance_pooling import MANY
from kit.core.errors import UsageError
from kit.extra.matrix.analysis.cell import MatrixCell, ratio_of
from kit.extra.matrix.analysis.row import MatrixRow

#: A session, and the standard deviation of what no number of its rounds removes: all its estimates share that.
Common = tuple[str, float]


def weighted_mean(parts: Sequence[tuple[float, Centre]], common: Sequence[Common] = ()) -> Centre | None:
    """Return the weighted mean of estimates of a fixed set, with its error; None without a positive weight.

    Estimates of different sessions are independent. The mean's variance is the sum of theirs, times the squares of the
    weights' shares. Points of a sweep are of one session, and their common errors add up themselves. The half width of
    its interval is the root of the sum of squares of the members' half widths, times their shares (method of variance
    estimates recovery; Zou and Donner 2008, doi:10.1002/sim.3095). To the first order that is Student's t with the
    harmonic mean of the degrees of freedom, weighted by variance, here rounded down. Satterthwaite's degrees (1946) are
    more, and their intervals hold less often where one arm is far noisier than the others:
    benchmarks/proofs/matrix.py. The interval covers the mean of these members: it says nothing of others, so how the
    members differ does not widen it.

    ``parts``: weight and estimate; those of weight 0 are left out. One without an error leaves the mean without one.
    ``common``: of each part; empty where no two are of one session."""
    counted = [(weight, centre) for weight, centre in parts if weight > 0]
    total = sum(weight for weight, _ in counted)
    if not counted or not math.isfinite(total):
        return None
    shares = [(weight / total, centre) for weight, centre in counted]
    estimate = sum(share * centre.estimate for share, centre in shares)
    errors = [share * centre.error for share, centre in shares if centre.error is not None]
    if len(errors) < len(shares):
        return Centre(estimate, None, 0, len(shares))
    variance = math.fsum(error**2 for error in errors)
    degrees = min(centre.degrees for _, centre in shares)
    spread = math.fsum(error**2 / centre.degrees for error, (_, centre) in zip(errors, shares, strict=True))
    if spread:
        degrees = max(degrees, int(variance / spread))
    counted_common = (
        [common_error for (weight, _), common_error in zip(parts, common, strict=True) if weight > 0] if common else []
    )
    many = student_quantile(0.5 + CONFIDENCE / 2, MANY)
    added = _across(
        [
            (session, share * floor * many / student_quantile(0.5 + CONFIDENCE / 2, centre.degrees))
            for (share, centre), (session, floor) in zip(shares if counted_common else [], counted_common, strict=True)
        ]
    )
    return Centre(estimate, math.sqrt(variance + added), degrees, len(shares))


def weighted_half(parts: Sequence[tuple[float, float]], common: Sequence[Common] = ()) -> float:
    """Return the half width of the weighted mean's interval: the root of the sum of squares of the members' half
    widths, times their weights' shares. ``parts``: weight and half width, each weight positive. ``common``: of each
    part, as half widths."""
    total = math.fsum(weight for weight, _ in parts)
    independent = math.fsum((weight / total * half) ** 2 for weight, half in parts)
    shared = [(session, weight / total * half) for (weight, _), (session, half) in zip(parts, common, strict=False)]
    return math.sqrt(independent + _across(shared))


def _across(errors: Sequence[Common]) -> float:
    """Return what errors that add up themselves have more than the sum of their squares."""
    sums: dict[str, float] = defaultdict(float)
    for session, error in errors:
        sums[session] += error
    return max(0.0, math.fsum(error_sum**2 for error_sum in sums.values()) - math.fsum(error**2 for _, error in errors))


@dataclass(frozen=True)
class ArmMean:
    """An arm over the rows that count: scenarios, and each point of a sweep."""

    arm: str
    verdict: Verdict
    scenarios: int  # rows that the arm has: a mean of fewer than all is of other rows than the others' means
    of: int  # all rows that count
    ratio: Estimate | None = None  # to the reference; its simultaneous interval is for all arms
    bare: Interval | None = None  # over bare on the arm's filesystem; None where one of the rows lacks it
    space: Interval | None = None  # to the reference, over the rows that have figures: n of the interval
    written: Interval | None = None  # the same of bytes written to the device

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


def parse_weights(arguments: Sequence[str], option: str) -> dict[str, float]:
    """Return the weights of ``SCENARIO=N``. ``option`` names them in errors. Raises UsageError."""
    weights = {}
    for argument in arguments:
        name, _, text = argument.rpartition("=")  # a command's title may have one, too
        if not name:
            raise UsageError(f"{option} {argument}: not NAME=N", f"use for example {option} kernel=3")
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text):
            raise UsageError(f"{option} {name}={text}: not a weight", f"use a number from 0 on: {option} {name}=3")
        weights[name] = float(text)
    return weights
