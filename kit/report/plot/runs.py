"""Every run as a dot, so that noise is seen: a row for each arm, the first rounds above, the last below."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kit.analysis.columns import Key, Runs
from kit.report import units
from kit.report.plot.picture import Picture, circle, label_width, line, shortened, text
from kit.report.plot.scale import Scale, seconds_ticks

_ROW, _BAND, _TOP, _PLOT, _RIGHT = 44.0, 30.0, 34.0, 520.0, 110.0
#: More dots of one arm than these say nothing more to the eye: every k-th is drawn, and the title says so.
MOST = 1000
#: Where the slowest run takes so many times as long as the fastest, the scale is logarithmic.
_FAR = 4.0


def plot_runs(runs: Runs, keys: Sequence[Key], name: str = "runs") -> Picture | None:
    """Real time of the whole run. None where nothing succeeded. Runs hit by a burst are hollow."""
    rows = [(key, runs.values(key, runs.phases([key])[-1], "real")) for key in keys if runs.has(key)]
    rows = [(key, values) for key, values in rows if np.isfinite(values).any() and (values > 0).any()]
    if not rows:
        return None
    known = np.concatenate([values[np.isfinite(values) & (values > 0)] for _, values in rows])
    log = known.max() / known.min() > _FAR
    margin = 0.0 if log else 0.03 * float(known.max() - known.min() or known.max())
    labels = [f"{arm}{units.at(point)}" for (arm, point), _ in rows]
    left = label_width(labels)
    low, high = float(known.min()) - margin, float(known.max()) + margin
    scale = Scale(low / 1.05 if log else low, high * 1.05 if log else high, left, left + _PLOT, log=bool(log))
    bottom = _TOP + _ROW * len(rows)
    parts = []
    for tick in seconds_ticks(scale.low, scale.high, bool(log)):
        parts.append(line(scale.at(tick), _TOP - 4, scale.at(tick), bottom, "grid"))
        parts.append(text(scale.at(tick), _TOP - 12, f"{tick:g} s", "middle", "quiet"))
    thinned = 1
    for i, ((key, values), label) in enumerate(zip(rows, labels, strict=True)):
        step = max(1, -(-values.size // MOST))
        thinned = max(thinned, step)
        parts += _row(runs, key, values, label, _TOP + _ROW * (i + 0.5), scale, step)
    title = "Every run: real time of the whole, first round above, last below; the bar is the mean"
    title += f" (one run in {thinned} is drawn)" if thinned > 1 else ""
    said = "; ".join(
        f"{label}: {values.size} runs from {units.seconds(float(np.nanmin(values)))} to "
        f"{units.seconds(float(np.nanmax(values)))}, mean {units.seconds(float(np.nanmean(values)))}"
        for (_, values), label in zip(rows, labels, strict=True)
    )
    return Picture(name, title, said, left + _PLOT + _RIGHT, bottom + 12, "".join(parts))


def _row(
    runs: Runs, key: Key, values: np.typing.NDArray[np.float64], label: str, y: float, scale: Scale, step: int
) -> list[str]:
    parts = [text(scale.left - 10, y + 4, shortened(label, scale.left - 10), "end")]
    parts.append(line(scale.left, y + _ROW / 2, scale.right, y + _ROW / 2, "grid"))
    mean = float(np.nanmean(values))
    parts.append(line(scale.at(mean), y - _BAND / 2, scale.at(mean), y + _BAND / 2, "mean"))
    samples = runs.samples(key)
    for place in range(0, values.size, step):
        value, sample = float(values[place]), samples[place]
        if not value > 0:
            continue
        offset = (place / max(values.size - 1, 1) - 0.5) * _BAND if values.size > 1 else 0.0
        hint = f"{label}, round {sample.block}: {units.seconds(value)}"
        kind = "flagged" if sample.flags else "dot"
        parts.append(circle(scale.at(value), y + offset, 4, kind, f"{hint}; {sample.flags}" if sample.flags else hint))
    parts.append(text(scale.right + 12, y + 4, units.seconds(mean)))
    return parts
