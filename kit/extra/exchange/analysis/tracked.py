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
    session_outcomes = outcomes(analysis.runs, analysis.comparisons)
    return tuple(
        outcome for outcome in session_outcomes if outcome.comparison.ratio is not None and _is_tracked(outcome)
    )


def _is_tracked(outcome: Outcome) -> bool:
    metric = outcome.comparison.metric
    return metric not in METRICS or (metric in TRACKED and outcome.whole)


def smaller_is_better(comparison: Comparison) -> Interval:
    """Return the ratio with its interval; where more of the figure is better, baseline / arm. Needs a ratio."""
    assert comparison.estimate
    return comparison.estimate if comparison.better != MORE else comparison.estimate.inverse
