"""Every arm's ratio to its baseline with its interval, a row each, the line at 1 in the middle."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kit.analysis.runs.compare import Comparison
from kit.analysis.stats.estimate import LESS, MORE
from kit.report.format import units
from kit.report.format.interval import percent_interval
from kit.report.format.verdict import sentence
from kit.report.plot.picture import CHARACTER, Picture, circle, label_width, line, path, shortened, text
from kit.report.plot.scale import Scale, ratio_ticks, spread

_ROW, _TOP, _PLOT = 30.0, 34.0, 420.0


def plot_intervals(comparisons: Sequence[Comparison], margin: float, name: str = "intervals") -> Picture | None:
    """Return the plot; None if there is nothing to draw. Filled dots are verdicts by simultaneous intervals."""
    rows = [comparison for comparison in comparisons if comparison.ratio is not None]
    if not rows:
        return None
    labels = [units.against(comparison) for comparison in rows]
    label_space = label_width(labels)
    right = 20 + max(len(percent_interval(comparison.estimate)) for comparison in rows) * CHARACTER
    reach = (
        spread([end for comparison in rows for end in (comparison.low, comparison.high, comparison.ratio) if end])
        * 1.05
    )
    scale = Scale(math.exp(-reach), math.exp(reach), label_space, label_space + _PLOT, log=True)
    bottom = _TOP + _ROW * len(rows)
    parts = []
    for tick in ratio_ticks(scale.low, scale.high):
        x = scale.at(tick)
        parts.append(line(x, _TOP - 4, x, bottom, "grid"))
        parts.append(text(x, _TOP - 12, units.percent(tick) if abs(tick - 1) > 1e-9 else "0", "middle", "quiet"))
    parts.append(line(scale.at(1), _TOP - 4, scale.at(1), bottom, "zero"))
    for i, (comparison, label) in enumerate(zip(rows, labels, strict=True)):
        parts += _row(comparison, label, _TOP + _ROW * (i + 0.5), scale, margin)
    description = "; ".join(
        f"{label}: {percent_interval(comparison.estimate)}, {sentence(comparison, margin)}"
        for comparison, label in zip(rows, labels, strict=True)
    )
    return Picture(
        name, "Real time of the whole run against the baseline, with 95 % intervals", description,
        label_space + _PLOT + right, bottom + 12, "".join(parts),
    )  # fmt: skip


def _row(comparison: Comparison, label: str, y: float, scale: Scale, margin: float) -> list[str]:
    kind = {MORE: "more", LESS: "less"}.get(comparison.verdict_all, "none")
    parts = [text(scale.left - 10, y + 4, shortened(label, scale.left - 10), "end")]
    if comparison.low_all and comparison.high_all and not comparison.control:
        parts.append(
            line(scale.at(scale.clamp(comparison.low_all)), y, scale.at(scale.clamp(comparison.high_all)), y, "wide")
        )
    ratio = comparison.ratio or 1.0
    low, high = comparison.low or ratio, comparison.high or ratio
    parts.append(line(scale.at(scale.clamp(low)), y, scale.at(scale.clamp(high)), y, f"{kind} line"))
    if high > scale.high:
        parts.append(path(f"M{scale.right:.1f} {y:.1f} l-9 -5 v10 z", kind))
    if low < scale.low:
        parts.append(path(f"M{scale.left:.1f} {y:.1f} l9 -5 v10 z", kind))
    interval = percent_interval(comparison.estimate)
    if scale.within(ratio):
        parts.append(
            circle(scale.at(ratio), y, 5, f"{kind} line", f"{label}: {interval}, {sentence(comparison, margin)}")
        )
    parts.append(text(scale.right + 12, y + 4, interval))
    return parts
