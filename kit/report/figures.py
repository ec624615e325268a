"""What the workload reports of itself: a table for each phase, each figure with its ratio to the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tabulate import tabulate

from kit.analysis.columns import Key, Runs
from kit.analysis.compare import Comparison
from kit.analysis.stats import Floats
from kit.parsers.figure import MORE, Reported
from kit.report import units
from kit.report.interval import ratio_interval

TOO_FAST = "too fast to tell"
Index = Mapping[tuple[str, str, str, str], Comparison]  # by arm, point, phase, metric


def figures(runs: Runs, keys: Sequence[Key], index: Index, phase: str, tablefmt: str) -> str:
    """Empty where the workload reports nothing in this phase."""
    rows = []
    for name, figure in runs.reported(keys, phase).items():
        label = _label(figure)
        for key in keys:
            values = runs.figure(key, phase, name)
            known = values[np.isfinite(values)]
            comparison = index.get((*key, phase, name))
            ratio = ratio_interval(comparison) if comparison else ""
            rows.append([label, key[0], _value(known) if name in runs.reported([key], phase) else units.NOTHING, ratio])
            label = ""
    if not rows:
        return ""
    at = units.at(keys[0][1])
    table = tabulate(rows, ["figure", "arm", "mean", "/ baseline"], tablefmt=tablefmt, disable_numparse=True)
    return f"reported by phase {phase}{at}\n{table}"


def _label(figure: Reported) -> str:
    unit = f", {figure.unit}" if figure.unit else ""
    return f"{figure.name}{unit}{' (more is better)' if figure.better == MORE else ''}"


def _value(known: Floats) -> str:
    return units.number(float(known.mean())) if known.size else TOO_FAST
