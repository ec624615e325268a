"""The document of ``kit matrix --json``."""

from __future__ import annotations

from kit.analysis.stats.estimate import Interval
from kit.cli.document import Document, fields_of, list_of, record
from kit.extra.fleet.analysis.answer import LeftOut
from kit.extra.matrix.analysis.mean import ArmMean

_CELL = record("MatrixCellRecord", **{
    "arm": str, "verdict": str, **dict.fromkeys(("ratio", "over_bare", "space", "written", "mean", "more"),
    Interval | None), "low_all": float | None, "high_all": float | None, "n": int, "session": str,
    "reason": str, "fix": str,
})  # fmt: skip
_MATRIX_ROW = record("MatrixRowRecord", **{
    "scenario": str, "point": str, "params": dict[str, str], "metric": str, "weight": float, "counts": bool,
    "machines": int, "cells": list_of(_CELL),
})  # fmt: skip
_MEAN = record("ArmMean", **fields_of(ArmMean, ratio=Interval | None, low_all=float | None, high_all=float | None))
_WRONG_FOR = record("WrongForRecord", scenario=str, point=str, faster=str)

MATRIX = Document("kit matrix --json", {
    "class": str, "reference": str, "margin": float, "take": str, "equivalent": list[str], "inconclusive": list[str],
    "wrong_for": list_of(_WRONG_FOR), "rows": list_of(_MATRIX_ROW), "means": list_of(_MEAN), "classes": list[str],
    "without": list[str], "left_out": list[LeftOut],
}, after="fleet-status")  # fmt: skip
