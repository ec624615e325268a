"""Every run as a dot, to show noise: a row for each arm, the first rounds above, the last below."""

from __future__ import annotations

from collections.abc import Sequence

from kit.analysis.runs.arm_runs import ArmRuns, TimeRange
from kit.report.format import units
from kit.report.plot.picture import Picture, circle, label_width, line, shortened, text
from kit.report.plot.scale import Scale, seconds_ticks

_ROW, _BAND, _TOP, _PLOT, _RIGHT = 44.0, 30.0, 34.0, 520.0, 110.0
#: Most dots of one arm. Above, every k-th is drawn, and the title says so.
MOST = 1000
#: If the slowest run takes this many times as long as the fastest, the scale is logarithmic.
_FAR = 4.0


def plot_runs(arms: Sequence[ArmRuns], name: str = "runs") -> Picture | None:
    """Return real time of the whole run. None if no run succeeded. Disturbed runs are hollow."""
    rows = [(item, found) for item in arms if (found := item.time_range)]
    if not rows:
        return None
    least, most = min(found.least for _, found in rows), max(found.most for _, found in rows)
    log = most / least > _FAR
    margin = 0.0 if log else 0.03 * (most - least or most)
    labels = [f"{item.arm}{units.at(item.point)}" for item, _ in rows]
    left = label_width(labels)
    low, high = least - margin, most + margin
    scale = Scale(low / 1.05 if log else low, high * 1.05 if log else high, left, left + _PLOT, log=log)
    bottom = _TOP + _ROW * len(rows)
    parts = []
    for tick in seconds_ticks(scale.low, scale.high, log):
        parts.append(line(scale.at(tick), _TOP - 4, scale.at(tick), bottom, "grid"))
        parts.append(text(scale.at(tick), _TOP - 12, f"{tick:g} s", "middle", "quiet"))
    thinned = 1
    for i, ((item, found), label) in enumerate(zip(rows, labels, strict=True)):
        step = max(1, -(-item.count // MOST))
        thinned = max(thinned, step)
        parts += _row(item, found, label, _TOP + _ROW * (i + 0.5), scale, step)
    title = "Every run: real time of the whole, first round above, last below; the bar is the mean"
    title += f" (one run in {thinned} is drawn)" if thinned > 1 else ""
    said = "; ".join(
        f"{label}: {item.count} runs from {units.seconds(found.least)} to {units.seconds(found.most)}, "
        f"mean {units.seconds(found.mean)}"
        for (item, found), label in zip(rows, labels, strict=True)
    )
    return Picture(name, title, said, left + _PLOT + _RIGHT, bottom + 12, "".join(parts))


def _row(item: ArmRuns, found: TimeRange, label: str, y: float, scale: Scale, step: int) -> list[str]:
    parts = [text(scale.left - 10, y + 4, shortened(label, scale.left - 10), "end")]
    parts.append(line(scale.left, y + _ROW / 2, scale.right, y + _ROW / 2, "grid"))
    parts.append(line(scale.at(found.mean), y - _BAND / 2, scale.at(found.mean), y + _BAND / 2, "mean"))
    for run in item.times(step):
        offset = (run.place / (item.count - 1) - 0.5) * _BAND if item.count > 1 else 0.0
        hint = f"{label}, round {run.round}: {units.seconds(run.seconds)}{f'; {run.flags}' if run.flags else ''}"
        parts.append(circle(scale.at(run.seconds), y + offset, 4, "flagged" if run.flags else "dot", hint))
    parts.append(text(scale.right + 12, y + 4, units.seconds(found.mean)))
    return parts
