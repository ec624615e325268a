"""The matrix of one class of machines: scenarios and arms, means over the scenarios, and the choice. Pure.

The interval of a cell is simultaneous for the arms of its session, those of the means for all arms. They are not
simultaneous over scenarios, nor over the sessions of one row.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kit.analysis.fleet.answer import LeftOut
from kit.core.errors import UsageError
from kit.extra.matrix.analysis.cell import MatrixCell
from kit.extra.matrix.analysis.choice import Choice, choose
from kit.extra.matrix.analysis.mean import ArmMean, mean_of, reference_mean
from kit.extra.matrix.analysis.row import MatrixRow


@dataclass(frozen=True)
class Matrix:
    """The matrix of one class of machines."""

    machine_class: str
    reference: str
    margin: float
    rows: tuple[MatrixRow, ...]
    # The reference's first, then of the arms with most scenarios first, and of these from the best to the worst
    means: tuple[ArmMean, ...]
    choice: Choice
    classes: tuple[str, ...] = ()  # other classes of machines in the store
    without: tuple[str, ...] = ()  # scenarios that have no figure against the reference
    left_out: tuple[LeftOut, ...] = ()  # sessions that do not count

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(mean.arm for mean in self.means)

    def mean(self, arm: str) -> ArmMean:
        return next(mean for mean in self.means if mean.arm == arm)


def make_matrix(
    machine_class: str,
    rows: Sequence[MatrixRow],
    reference: str,
    margin: float,
    weights: Mapping[str, float],
    arms: Sequence[str] = (),
) -> Matrix:
    """Return the matrix. ``weights``: by scenario, with or without its variant (``kernel`` for ``kernel:short``); 1
    where none is given. ``arms``: the only ones that are shown beside the reference; all where it is empty. Raises
    UsageError for a weight or an arm that fits nothing."""
    weighed = _share_weights(_weighed(rows, weights))
    compared = dict.fromkeys(cell.arm for row in weighed for cell in row.cells if cell.arm != reference)
    strange = [arm for arm in arms if arm != reference and arm not in compared]
    if strange:
        raise UsageError(f"--arm {strange[0]}: no session has compared it", f"use some of: {', '.join(compared)}")
    chosen = [arm for arm in compared if not arms or arm in arms]
    counted = counting(weighed)
    family = len({cell.arm for row in counted for cell in row.cells if cell.arm in chosen and cell.measured})
    means = [mean_of(arm, counted, family, margin) for arm in chosen]
    means.sort(key=_order)
    means.insert(0, reference_mean(reference, counted))
    columns = {reference, *chosen}
    chosen_rows = tuple(replace(row, cells=tuple(cell for cell in row.cells if cell.arm in columns)) for row in weighed)
    return Matrix(
        machine_class, reference, margin, chosen_rows, tuple(means), choose(counting(chosen_rows), means, reference)
    )


def counting(rows: Sequence[MatrixRow]) -> list[MatrixRow]:
    """Return the rows of which means are made."""
    return [row for row in rows if row.counts]


def _is_over_bare(cell: MatrixCell) -> bool:
    return cell.bare is not None and cell.bare.error is not None


def _order(mean: ArmMean) -> tuple[int, float]:
    """Return the sort key: arms with most scenarios first, since their means say most."""
    return -mean.scenarios, mean.ratio.estimate if mean.ratio else math.inf


def _weighed(rows: Sequence[MatrixRow], weights: Mapping[str, float]) -> list[MatrixRow]:
    """Return the rows with the weights of their scenarios."""
    names = {row.scenario for row in rows}
    for name in weights:
        if name not in {*names, *map(_base, names)}:
            fix = f"use a scenario of the matrix: {', '.join(sorted(names))}"
            raise UsageError(f"--weight {name}: no scenario of the matrix", fix)
    return [replace(row, weight=weights.get(row.scenario, weights.get(_base(row.scenario), 1.0))) for row in rows]


def _share_weights(rows: Sequence[MatrixRow]) -> list[MatrixRow]:
    """Return the rows with which of them count; those of a scenario that count share its weight.

    Rows count that have a weight and compare an arm with the reference. Where none does, those with a cost over bare
    count. So a session of bare and the reference alone does not make all other arms lack a scenario."""
    weighed = [row for row in rows if row.weight > 0]
    compared = [row for row in weighed if any(cell.measured for cell in row.cells)]
    part = compared or [row for row in weighed if any(map(_is_over_bare, row.cells))]
    points = Counter(row.scenario for row in part)
    return [replace(row, weight=row.weight / max(points[row.scenario], 1), counts=row in part) for row in rows]


def _base(scenario: str) -> str:
    return scenario.partition(":")[0]
