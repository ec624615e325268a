"""Figures that the workload reports: a table for each phase, each figure with its ratio to the baseline."""

from __future__ import annotations

from collections.abc import Mapping

from kit.analysis.runs.arm_runs import ArmRuns, PointRuns
from kit.analysis.runs.compare import Comparison
from kit.parsers.figure import MORE, Reported
from kit.report.format import units
from kit.report.format.interval import ratio_interval
from kit.report.format.table import render_table

TOO_FAST = "too fast to measure"
Index = Mapping[tuple[str, str, str, str], Comparison]  # by arm, point, phase, metric


def figures(point: PointRuns, index: Index, phase: str, tablefmt: str) -> str:
    """Return the table; empty if the workload reports nothing in this phase."""
    rows = []
    for name, figure in point.reported(phase).items():
        label = _label(figure)
        for runs in point.arms:
            comparison = index.get((runs.arm, runs.point, phase, name))
            ratio = ratio_interval(comparison) if comparison else ""
            rows.append([label, runs.arm, _mean(runs, phase, name), ratio])
            label = ""
    if not rows:
        return ""
    at = units.at(point.point)
    table = render_table(rows, ["figure", "arm", "mean", "/ baseline"], tablefmt)
    return f"reported by phase {phase}{at}\n{table}"


def _label(figure: Reported) -> str:
    unit = f", {figure.unit}" if figure.unit else ""
    return f"{figure.name}{unit}{' (more is better)' if figure.better == MORE else ''}"


def _mean(runs: ArmRuns, phase: str, name: str) -> str:
    if not runs.reports(phase, name):
        return units.NOTHING
    mean = runs.mean(phase, name)
    return TOO_FAST if mean is None else units.number(mean)
