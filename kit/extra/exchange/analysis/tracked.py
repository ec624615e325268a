"""The penalties of a session that other programs track over time. Pure."""

from __future__ import annotations

from kit.analysis.runs.compare import Comparison
from kit.analysis.session.analyse import Analysis
from kit.analysis.session.outcome import Outcome, outcomes
from kit.analysis.stats.estimate import Interval
from kit.model.metric import METRICS
from kit.parsers.figure import MORE

#: Metrics of the whole run. Figures that the workload reports are added.
TRACKED = ("real", "durable", "cpu_total")


def tracked_outcomes(analysis: Analysis) -> tuple[Outcome, ...]:
    """Return the outcomes with a ratio: whole runs by TRACKED, and the workload's own figures."""
    found = outcomes(analysis.runs, analysis.comparisons)
    return tuple(item for item in found if item.comparison.ratio is not None and _is_tracked(item))


def _is_tracked(item: Outcome) -> bool:
    metric = item.comparison.metric
    return metric not in METRICS or (metric in TRACKED and item.whole)


def smaller_is_better(item: Comparison) -> Interval:
    """Return the ratio with its interval; where more of the figure is better, baseline / arm. Needs a ratio."""
    assert item.estimate
    return item.estimate if item.better != MORE else item.estimate.inverse
