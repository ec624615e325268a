"""One session's result for one arm, in the form that a history stores. Pure. A change of the statistics raises
OUTCOME_VERSION of kit.store.schema.tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kit.analysis.runs.compare import Comparison
from kit.analysis.runs.run_table import Digests, Runs


@dataclass(frozen=True)
class Outcome:
    """A comparison, with the means of the arm and of its baseline (seconds, or the figure's unit) over their runs.

    ``whole``: it is of the whole run, not of a phase. ``digests``: those of the arm's first run.
    """

    comparison: Comparison
    mean: float | None
    base_mean: float | None
    whole: bool
    digests: Digests


def outcomes(runs: Runs, comparisons: Iterable[Comparison]) -> tuple[Outcome, ...]:
    """Return the outcomes of all comparisons but controls, which show noise."""
    arm_outcomes = []
    for comparison in comparisons:
        if comparison.control:
            continue
        keys = (comparison.arm, comparison.point), (comparison.baseline, comparison.point)
        mean, base_mean = (_mean(runs.values(key, comparison.phase, comparison.metric)) for key in keys)
        whole = comparison.phase == runs.phases(keys)[-1]
        arm_outcomes.append(Outcome(comparison, mean, base_mean, whole, runs.samples(keys[0])[0].digests))
    return tuple(arm_outcomes)


def _mean(values: np.typing.NDArray[np.float64]) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else None
