"""What each arm of a matrix costs per year, from the durable time of a build. Pure.

The builds of a day are those of the scenarios, in the shares of their weights. A run of N copies at once is N builds.
Times add up, so this mean is the arithmetic one. An interval covers the cost of these builds on these machines, at the
given price and number of builds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kit.analysis.matrix.cell import MatrixCell
from kit.analysis.matrix.matrix import Matrix, counting
from kit.analysis.matrix.row import MatrixRow
from kit.analysis.session.ranking import DURABLE, REAL
from kit.analysis.stats.estimators import Centre, Interval
from kit.analysis.stats.weighted import weighted_mean
from kit.core.errors import UsageError

_DAYS, _HOUR = 365, 3600


@dataclass(frozen=True)
class Price:
    """``per_hour``: of a machine, in any currency. ``builds``: number of builds in a day."""

    per_hour: float
    builds: float

    def per_year(self, seconds: Centre | None) -> Interval | None:
        """Return the cost of a year of builds that take ``seconds`` each, with its 95 % interval."""
        if seconds is None:
            return None
        scale = self.per_hour / _HOUR * self.builds * _DAYS
        error = None if seconds.error is None else seconds.error * scale
        return replace(seconds, estimate=seconds.estimate * scale, error=error).interval()


@dataclass(frozen=True)
class YearlyCost:
    """``seconds``: machine time of a build. ``total``: of a year. ``more``: of that, more than the reference, from
    pairs of runs and therefore narrower; None for the reference. All with individual 95 % intervals."""

    arm: str
    seconds: Interval
    total: Interval
    more: Interval | None


def yearly_costs(matrix: Matrix, price: Price) -> tuple[YearlyCost, ...]:
    """Return the costs of the arms that have all scenarios, in the matrix's order. Raises UsageError if the matrix is
    not of times that a machine is in use."""
    rows = counting(matrix.rows)
    strange = [row.metric for row in rows if row.metric not in (DURABLE, REAL)]
    if strange:
        raise UsageError(
            f"a price needs durable or real time, not {strange[0]}", "leave out --price and --builds, or --metric"
        )
    found = []
    for arm in matrix.arms:
        seconds, more = (_mean(rows, arm, name) for name in ("seconds", "more"))
        total = price.per_year(seconds)
        if seconds and total:
            found.append(YearlyCost(arm, seconds.interval(), total, price.per_year(more)))
    return tuple(found)


def _mean(rows: Sequence[MatrixRow], arm: str, name: str) -> Centre | None:
    """Return the mean of a build over the scenarios; None where one of them lacks it."""
    parts, common = [], []
    for row in rows:
        cell = row.cell(arm)
        item: Centre | None = getattr(cell, name) if cell else None
        if cell is None or item is None:
            return None
        error = None if item.error is None else item.error / row.copies
        parts.append((row.weight, replace(item, estimate=item.estimate / row.copies, error=error)))
        common.append((cell.session, cell.floor * _base(cell) / row.copies if name == "more" else 0.0))
    return weighted_mean(parts, common)


def _base(cell: MatrixCell) -> float:
    """Return the reference's seconds."""
    return cell.seconds.estimate - cell.more.estimate if cell.seconds and cell.more else 0.0
