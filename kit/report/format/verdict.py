"""The result for real time: a line for each arm with its intervals, drawn on one scale, and the noise floor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from kit.analysis.runs.compare import Comparison
from kit.analysis.runs.drift import MACHINE
from kit.analysis.session.analyse import Analysis, NoiseFloor, detectable, whole_real
from kit.analysis.stats.estimate import LESS, MORE, NO_INTERVAL, NOT_SIGNIFICANT
from kit.report.format import units
from kit.report.format.interval import percent_interval
from kit.report.format.table import render_table
from kit.report.format.wrap import wrap

_WIDTH = 33  # of the plot, odd: 1 is in the middle
_FARTHEST = 300.0  # a logarithm; two noisy runs have intervals that end beyond the floats


def verdicts(analysis: Analysis, tablefmt: str = "simple") -> str:
    """Return the table of verdicts, with a plot of the intervals on a terminal."""
    arms = list(dict.fromkeys(comparison.arm for comparison in analysis.comparisons))
    # Sorting is stable: within an arm, points keep their order.
    comparisons = sorted(whole_real(analysis.comparisons), key=lambda comparison: arms.index(comparison.arm))
    if not comparisons:
        return ""
    plot = Plot(comparisons) if tablefmt == "simple" else None
    family = max(comparison.family for comparison in comparisons)
    rows = [
        [
            f"{comparison.arm} / {comparison.baseline}" + (f" [{comparison.point}]" if comparison.point else ""),
            percent_interval(comparison.estimate),
            *([_all(comparison)] if family > 1 else []),
            *([plot.draw(comparison)] if plot else []),
            sentence(comparison, analysis.margin),
        ]
        for comparison in comparisons
    ]
    headers = ["arm / baseline", "individual 95 %", *(["simultaneous"] if family > 1 else [])]
    headers += [*([plot.axis()] if plot else []), "verdict"]
    table = render_table(rows, headers, tablefmt)
    return f"real time of the whole run\n{table}"


def _all(comparison: Comparison) -> str:
    if comparison.low_all is None or comparison.high_all is None or comparison.control:
        return units.NOTHING
    return percent_interval(comparison.together).partition(" %")[2].strip()


def sentence(comparison: Comparison, margin: float) -> str:
    """Return ``slower``, ``slower, equivalent within ±3 %``, ``inconclusive (80 % power for 4.1 %)``."""
    if comparison.verdict == NO_INTERVAL:
        return f"one {'run' if comparison.unpaired else 'round'}: no interval" if comparison.n == 1 else "no interval"
    if comparison.control:
        return "noise: identical arms" if comparison.verdict == NOT_SIGNIFICANT else "identical arms DIFFER"
    word = {MORE: "slower", LESS: "faster"}
    equivalent = f"equivalent within ±{units.asked(margin)}" if comparison.equivalent(margin) else ""
    if comparison.verdict_all in word:
        return f"{word[comparison.verdict_all]}, {equivalent}" if equivalent else word[comparison.verdict_all]
    if equivalent:
        return equivalent
    if comparison.verdict in word:
        return f"{word[comparison.verdict]}, but not significant after correcting for {comparison.family} comparisons"
    return f"inconclusive ({power(comparison.detectable)})"


def power(smallest: float | None) -> str:
    """Return ``80 % power for 4.1 %``: such a penalty is significant in four sessions of five like this one."""
    return f"80 % power for {_size(smallest)}" if smallest else "power unknown"


class Range(Protocol):
    """A drawable ratio and its interval."""

    @property
    def ratio(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


class Plot:
    """Ratios with their intervals on one logarithmic scale, 1 in the middle. Arms far off end in an arrow."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        ends = [
            abs(math.log(end))
            for interval in ranges
            for end in (interval.low, interval.high, interval.ratio)
            if end and end > 0
        ]
        # Four times the median end: one arm that is several times slower must not flatten all others.
        usual = sorted(ends)[len(ends) // 2] if ends else 0.0
        self._reach = min(max(ends, default=0.01), max(4 * usual, 0.01), _FARTHEST) or 0.01

    def axis(self) -> str:
        lowest, highest = units.percent(math.exp(-self._reach)), units.percent(math.exp(self._reach))
        before = _WIDTH // 2 + 1 - len(lowest)  # the plot's edge is one column
        return f"{lowest}{'0':>{before + 1}}{highest:>{_WIDTH + 2 - len(lowest) - before - 1}}"

    def draw(self, interval: Range) -> str:
        cells = [" "] * _WIDTH
        cells[_WIDTH // 2] = "┊"
        if interval.ratio is None or interval.ratio <= 0:
            return _edged(cells)
        low, high = interval.low or interval.ratio, interval.high or interval.ratio
        first, last = self._column(low), self._column(high)
        for column in range(max(first, 0), min(last, _WIDTH - 1) + 1):
            cells[column] = "─"
        point = self._column(interval.ratio)
        if 0 <= point < _WIDTH:
            cells[point] = "●"
        if last >= _WIDTH:
            cells[-1] = "▶"
        if first < 0:
            cells[0] = "◀"
        return _edged(cells)

    def _column(self, ratio: float) -> int:
        return round((math.log(ratio) / self._reach + 1) / 2 * (_WIDTH - 1))


def _edged(cells: Sequence[str]) -> str:
    """Return the text with visible ends: the table would remove white space there."""
    return f"│{''.join(cells)}│"


def assurance(analysis: Analysis) -> str:
    """Return how far the figures can be trusted, a line each, for a terminal."""
    return "\n".join(wrap(line) for line in assurance_lines(analysis))


def assurance_lines(analysis: Analysis) -> list[str]:
    """Return noise floor, growth, drift, disturbances, covariate: a sentence each."""
    lines = [floor_line(floor) for floor in analysis.floors]
    lines += _detectable_line(analysis)
    lines += _growth_lines(analysis)
    lines += _drift_lines(analysis)
    lines += _burst_lines(analysis)
    lines += _covariate_lines(analysis)
    return lines


def floor_line(floor: NoiseFloor) -> str:
    interval = percent_interval(floor.estimate)
    at = units.at(floor.point)
    line = f"noise floor{at}: two identical copies of {floor.baseline} differ by {interval}"
    if floor.estimate.leaves_out(1.0):
        line += ". One session in 20 shows this at random; if it recurs, look for a cause"
    return line


def _size(ratio: float) -> str:
    """Return a penalty without a sign, of two digits from 100 % on: so large a noise is not known better."""
    if ratio < 2:
        return units.percent(ratio).lstrip("+")
    change = 100 * (ratio - 1) if ratio < 100 else ratio
    rounded = round(change, 1 - math.floor(math.log10(change)))
    return f"{rounded:,.0f} %" if ratio < 100 else units.percent(rounded)


def _detectable_line(analysis: Analysis) -> list[str]:
    """Return what the rows of the table above say of power, in one line."""
    sizes = detectable(analysis.comparisons)
    if not sizes:
        return []
    least, most = _size(sizes[0]), _size(sizes[-1])
    size = least if least == most else f"{least} to {most}, by arm"
    control = (
        ""
        if analysis.floors or any(ranking.labelled for ranking in analysis.rankings)
        else "; --control measures the noise with two identical arms"
    )
    return [f"smallest penalty that is significant here with 80 % power: {size}{control}"]


def _growth_lines(analysis: Analysis) -> list[str]:
    lines = []
    for growth in analysis.growths:
        change = "changes by" if growth.factor.leaves_out(1.0) else "does not change significantly:"
        interval = percent_interval(growth.factor)
        pair = f"{growth.arm} / {growth.baseline}"
        lines.append(f"growth: the ratio {pair} {change} {interval} with each doubling of {growth.parameter}")
    return lines


def _drift_lines(analysis: Analysis) -> list[str]:
    lines = []
    for drift in analysis.drifts:
        at = units.at(drift.point)
        if drift.found and drift.what == MACHINE:
            lines.append(
                f"drift{at}: all arms changed by {units.percent(drift.per_round)} per round (p = {drift.p:.2g}); "
                "comparisons within rounds cancel that"
            )
        elif drift.found:
            lines.append(
                f"drift{at}: the ratio of {drift.what} changed by {units.percent(drift.per_round)} per round "
                f"(p = {drift.p:.2g}): it is not the same at the end as at the start"
            )
        if drift.warm_up:
            what = "all arms were" if drift.what == MACHINE else f"the ratio of {drift.what} was"
            lines.append(f"warm-up{at}: in the first round {what} {units.percent(drift.warm_up)} off the other rounds")
    if analysis.drifts and not lines:
        lines.append(f"drift: none found over {max(drift.rounds for drift in analysis.drifts)} rounds")
    return lines


def _burst_lines(analysis: Analysis) -> list[str]:
    lines = []
    for run in analysis.flagged:
        at = units.at(run.point)
        what = "a rerun replaces it" if run.repeated else "no rerun: it counts"
        lines.append(f"disturbed: {run.arm}{at}, round {run.round}: {run.why}; {what}")
    return lines


def _covariate_lines(analysis: Analysis) -> list[str]:
    if analysis.narrowing is None:
        return []
    covariate, gain = analysis.narrowing
    names = {
        "calibration": "the clock speed before and after each run",
        "memory": "the memory speed before and after each run",
        "steal": "CPU stolen by the hypervisor",
    }
    narrower = f"{units.share(gain)} narrower" if gain >= 0 else f"{units.share(-gain)} wider"
    return [f"covariate: real time is adjusted for {names[covariate]}: intervals {narrower}"]
