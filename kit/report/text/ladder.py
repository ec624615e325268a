"""The ladder as a table: where a container's penalty comes from, in seconds and percent, per phase and in total."""

from __future__ import annotations

from collections.abc import Sequence

from kit.analysis.session.analyse import Analysis
from kit.analysis.session.ladder import Ladder, LadderStep, whole_ladder
from kit.analysis.stats.estimate import Interval
from kit.model.sample import TOTAL
from kit.report.format import units
from kit.report.format.interval import amount_interval, share_interval
from kit.report.format.table import render_table

_COSTS = {"cpu": "CPU in the build", "outside": "outside CPU", "cpu_total": "total CPU cost"}


def ladders(analysis: Analysis, newline: str = "\n", tablefmt: str = "simple") -> list[str]:
    """Return one table for each arm and point with a ladder: rows are phases and costs, columns are steps."""
    tables = []
    for whole in analysis.whole_ladders:
        of_arm = [ladder for ladder in analysis.ladders if (ladder.arm, ladder.point) == (whole.arm, whole.point)]
        tables.append(_table(of_arm, whole, newline, tablefmt))
    return tables


def _table(ladders: Sequence[Ladder], whole: Ladder, newline: str, tablefmt: str) -> str:
    names = [step.name for step in whole.steps]
    rows = [_row(whole, _time_name(whole.phase), names, newline)]
    rows += [
        _row(ladder, _time_name(ladder.phase), names, newline)
        for ladder in ladders
        if ladder.cost == "real" and ladder is not whole
    ]
    for cost, name in _COSTS.items():
        ladder = whole_ladder(ladders, cost)
        if ladder:
            rows.append(_row(ladder, name, names, newline))
    at = units.at(whole.point)
    rounds = f"{whole.n} round{'s' if whole.n > 1 else ''}"
    title = f"where the cost of {whole.arm}{at} comes from: seconds more than {whole.baseline}, and % of it, {rounds}"
    headers = ["", *names, "whole"]
    return f"{title}\n{render_table(rows, headers, tablefmt)}"


def _time_name(phase: str) -> str:
    return "real + flush" if phase == TOTAL else f"  {phase}"


def _row(ladder: Ladder, name: str, names: Sequence[str], newline: str) -> list[str]:
    steps = {step.name: step for step in ladder.steps}
    cells = [_cell(steps[name], newline) if name in steps else units.NOTHING for name in names]
    return [name, *cells, _cell(ladder.whole, newline)]


def _cell(step: LadderStep, newline: str) -> str:
    return f"{_seconds(step.seconds)}{newline}{shares(step.share)}"


def _seconds(value: Interval) -> str:
    return amount_interval(value)


def shares(value: Interval | None) -> str:
    if value is None:
        return units.NOTHING
    return share_interval(value)
