"""The matrix as JSON and CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from kit.analysis.stats.estimate import Interval
from kit.analysis.stats.estimators import Centre
from kit.extra.matrix.analysis.cell import MatrixCell, ratio_of
from kit.extra.matrix.analysis.matrix import Matrix
from kit.extra.matrix.analysis.mean import ArmMean
from kit.extra.matrix.analysis.row import MatrixRow
from kit.report.format.csv_rows import render_sheet
from kit.report.format.sanitize import shown


def render_matrix_json(matrix: Matrix) -> str:
    matrix = shown(matrix)
    choice = matrix.choice
    document = {
        "schema": 1,
        "class": matrix.machine_class,
        "reference": matrix.reference,
        "margin": matrix.margin,
        "take": choice.take,
        "equivalent": choice.alike,
        "inconclusive": choice.inconclusive,
        "wrong_for": [
            {"scenario": wrong.scenario, "point": wrong.point, "faster": wrong.faster} for wrong in choice.wrong
        ],
        "rows": [
            {"scenario": row.scenario, "point": row.point, "params": dict(row.params), "metric": row.metric,
             "weight": row.weight, "counts": row.counts, "machines": row.machines,
             "cells": [cell_document(cell) for cell in row.cells]}
            for row in matrix.rows
        ],
        "means": [_mean_document(mean) for mean in matrix.means],
        "classes": matrix.classes,
        "without": matrix.without,
        "left_out": [asdict(left_out) for left_out in matrix.left_out],
    }  # fmt: skip
    return json.dumps(document, indent=1) + "\n"


def cell_document(cell: MatrixCell) -> dict[str, Any]:
    """Return a cell with intervals instead of logarithms."""
    return {
        "arm": cell.arm, "verdict": cell.verdict, "ratio": _interval(cell.ratio), **_together(cell.together),
        "over_bare": _interval(ratio_of(cell.bare)),
        "space": _interval(ratio_of(cell.space)), "written": _interval(ratio_of(cell.written)),
        "mean": _plain(cell.seconds), "more": _plain(cell.more), "n": cell.n, "session": cell.session,
        "reason": cell.reason, "fix": cell.fix,
    }  # fmt: skip


def _mean_document(mean: ArmMean) -> dict[str, Any]:
    ratio = mean.ratio and Interval(mean.ratio.estimate, mean.ratio.low, mean.ratio.high, mean.ratio.n)
    return {**asdict(mean), "ratio": _interval(ratio), **_together(mean.ratio and mean.ratio.together)}


def _plain(centre: Centre | None) -> dict[str, Any] | None:
    return _interval(centre.interval()) if centre else None


def _interval(interval: Interval | None) -> dict[str, Any] | None:
    return asdict(interval) if interval else None


def render_matrix_csv(matrix: Matrix) -> str:
    """Return a line for each cell, then one for each mean."""
    matrix = shown(matrix)
    rows = [_cell_row(matrix, row, cell) for row in matrix.rows for cell in row.cells]
    rows += _mean_rows(matrix)
    return render_sheet(list(dict.fromkeys(name for row in rows for name in row)), rows)


def _cell_row(matrix: Matrix, row: MatrixRow, cell: MatrixCell) -> dict[str, Any]:
    return {
        "class": matrix.machine_class, "scenario": row.scenario, "point": row.point, "metric": row.metric,
        "weight": row.weight, "arm": cell.arm, "reference": matrix.reference, "verdict": cell.verdict,
        **_columns("", cell.ratio), **_together(cell.together),
        **_columns("over_bare", ratio_of(cell.bare)), **_columns("space", ratio_of(cell.space)),
        **_columns("written", ratio_of(cell.written)),
        **_columns("mean", cell.seconds.interval() if cell.seconds else None),
        **_columns("more", cell.more.interval() if cell.more else None),
        "n": cell.n, "machines": row.machines, "session": cell.session, "reason": cell.reason,
        "fix": cell.fix,
    }  # fmt: skip


def _columns(name: str, interval: Interval | None) -> dict[str, Any]:
    before = f"{name}_" if name else ""
    values = (interval.estimate, interval.low, interval.high) if interval else (None, None, None)
    return dict(zip((name or "ratio", f"{before}low", f"{before}high"), values, strict=True))


def _together(interval: Interval | None) -> dict[str, Any]:
    return {"low_all": interval and interval.low, "high_all": interval and interval.high}


def _mean_rows(matrix: Matrix) -> Iterator[dict[str, Any]]:
    for mean in matrix.means:
        yield {
            "class": matrix.machine_class, "scenario": "", "arm": mean.arm, "reference": matrix.reference,
            "verdict": mean.verdict, **_columns("", mean.ratio), **_together(mean.ratio and mean.ratio.together),
            **_columns("over_bare", mean.bare), **_columns("space", mean.space), **_columns("written", mean.written),
            "n": mean.scenarios,
        }  # fmt: skip
