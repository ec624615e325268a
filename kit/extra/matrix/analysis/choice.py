"""Which driver to take by a matrix, and in which scenarios that is wrong. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.stats.estimate import EQUIVALENT, FASTER, INCONCLUSIVE, SLOWER
from kit.extra.matrix.analysis.cell import MatrixCell
from kit.extra.matrix.analysis.mean import ArmMean
from kit.extra.matrix.analysis.row import MatrixRow
from kit.model.arm import known_arm


@dataclass(frozen=True)
class WrongFor:
    """A scenario in which the choice is significantly slower."""

    scenario: str
    point: str
    faster: str
    cell: MatrixCell  # of the faster arm against the reference, or of the choice where the reference is the faster one


@dataclass(frozen=True)
class Choice:
    """Which driver to take, and what is known of the others."""

    # The least mean among the arms significantly faster than the reference, else the reference; '' without another
    # driver that has all scenarios
    take: str
    alike: tuple[str, ...] = ()  # equivalent to the reference
    inconclusive: tuple[str, ...] = ()  # neither faster, slower nor equivalent
    faster: tuple[str, ...] = ()  # significantly faster than the reference, the best first
    # Scenarios in which take is significantly slower than the reference, or another driver faster than the reference
    # where that is taken
    wrong: tuple[WrongFor, ...] = ()


def choose(rows: Sequence[MatrixRow], means: Sequence[ArmMean], reference: str) -> Choice:
    """Return the choice among drivers: arms with the reference's placement and options, which have all scenarios.

    ``means``: the reference's first, then from the best to the worst. The verdicts are those of means, which are
    simultaneous for all arms; a cell's is for the arms of its session."""
    drivers = [mean for mean in means if mean.complete and mean.ratio and is_driver_beside(mean.arm, reference)]
    if not drivers:
        return Choice("")
    faster = [mean for mean in drivers if mean.verdict == FASTER]
    take = faster[0].arm if faster else reference
    rivals = {mean.arm for mean in means if is_driver_beside(mean.arm, reference)}
    return Choice(
        take,
        tuple(mean.arm for mean in drivers if mean.verdict == EQUIVALENT),
        tuple(mean.arm for mean in drivers if mean.verdict == INCONCLUSIVE),
        tuple(mean.arm for mean in faster),
        tuple(wrong for row in rows if (wrong := _wrong(row, take, reference, rivals))),
    )


def is_driver_beside(arm: str, reference: str) -> bool:
    """Return whether the arms differ in driver, engine or filesystem alone."""
    tested, base = known_arm(arm), known_arm(reference)
    if tested is None or base is None:
        return arm != reference
    return tested != base and (tested.placement, tested.options, tested.outer) == (
        base.placement,
        base.options,
        base.outer,
    )


def _wrong(row: MatrixRow, take: str, reference: str, rivals: set[str]) -> WrongFor | None:
    if take != reference:
        cell = row.cell(take)
        return WrongFor(row.scenario, row.point, reference, cell) if cell and cell.verdict == SLOWER else None
    faster = [cell for cell in row.cells if cell.arm in rivals and cell.verdict == FASTER and cell.time]
    best = min(faster, key=lambda cell: cell.time.estimate if cell.time else 0.0, default=None)
    return WrongFor(row.scenario, row.point, best.arm, best) if best else None
