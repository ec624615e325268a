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
    rows = [(runs, times) for runs in arms if (times := runs.time_range)]
    if not rows:
        return None
    least, most = min(times.least for _, times in rows), max(times.most for _, times in rows)
    log = most / least > _FAR
    margin = 0.0 if log else 0.03 * (most - least or most)
    labels = [f"{runs.arm}{units.at(runs.point)}" for runs, _ in rows]
    label_space = label_width(labels)
    low, high = least - margin, most + margin
    scale = Scale(low / 1.05 if log else low, high * 1.05 if log else high, label_space, label_space + _PLOT, log=log)
    bottom = _TOP + _ROW * len(rows)
    parts = []
    for tick in seconds_ticks(scale.low, scale.high, log):
        parts.append(line(scale.at(tick), _TOP - 4, scale.at(tick), bottom, "grid"))
        parts.append(text(scale.at(tick), _TOP - 12, f"{tick:g} s", "middle", "quiet"))
    thinned = 1
    for i, ((runs, times), label) in enumerate(zip(rows, labels, strict=True)):
        step = max(1, -(-runs.count // MOST))
        thinned = max(thinned, step)
        parts += _row(runs, times, label, _TOP + _ROW * (i + 0.5), scale, step)
    title = "Every run: real time of the whole, first round above, last below; the bar is the mean"
    title += f" (one run in {thinned} is drawn)" if thinned > 1 else ""
    description = "; ".join(
        f"{label}: {runs.count} runs from {units.seconds(times.least)} to {units.seconds(times.most)}, "
        f"mean {units.seconds(times.mean)}"
        for (runs, times), label in zip(rows, labels, strict=True)
    )
    return Picture(name, title, description, label_space + _PLOT + _RIGHT, bottom + 12, "".join(parts))


def _row(runs: ArmRuns, times: TimeRange, label: str, y: float, scale: Scale, step: int) -> list[str]:
    parts = [text(scale.left - 10, y + 4, shortened(label, scale.left - 10), "end")]
    parts.append(line(scale.left, y + _ROW / 2, scale.right, y + _ROW / 2, "grid"))
    parts.append(line(scale.at(times.mean), y - _BAND / 2, scale.at(times.mean), y + _BAND / 2, "mean"))
    for run in runs.times(step):
        offset = (run.place / (runs.count - 1) - 0.5) * _BAND if runs.count > 1 else 0.0
        hint = f"{label}, round {run.round}: {units.seconds(run.seconds)}{f'; {run.flags}' if run.flags else ''}"
        parts.append(circle(scale.at(run.seconds), y + offset, 4, "flagged" if run.flags else "dot", hint))
    parts.append(text(scale.right + 12, y + 4, units.seconds(times.mean)))
    return parts
