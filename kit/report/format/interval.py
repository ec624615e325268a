"""Estimates with their intervals, in one style everywhere: ``+5.6 % [+3.1, +8.2]``."""

from __future__ import annotations

import math

from kit.analysis.runs.compare import Comparison
from kit.analysis.stats.estimate import Interval
from kit.report.format import units

_NO_INTERVAL = "(no interval)"
#: Decimals at most: of percent, and of all else.
_PERCENT, _OTHER = 2, 3
#: From the first ratio on a change is shown as ``286-fold`` instead of percent; from the second on not at all.
_FOLD, _LARGEST = 100.0, 1000.0
#: Figures from here on need no decimals.
_LONG = 100.0
#: A narrower interval is a point.
_POINT = 1e-9


def interval_of(shift: Interval | None) -> str:
    """Return a change, or the sign for none."""
    return percent_interval(shift) if shift else units.NOTHING


def percent_interval(ratio: Interval | None, most: int = _PERCENT) -> str:
    """Return a ratio as a change: ``+5.6 % [+3.1, +8.2]``. ``most``: decimals at most."""
    if ratio is None:
        return "no ratio"
    if ratio.low is None or ratio.high is None:
        return f"{units.percent(ratio.estimate)} {_NO_INTERVAL}"
    places = min(decimals(*((end - 1) * 100 for end in (ratio.estimate, ratio.low, ratio.high))), most)
    return f"{_change(ratio.estimate, places, ' %')} [{_change(ratio.low, places)}, {_change(ratio.high, places)}]"


def percent_range(low: float, high: float) -> str:
    """Return an interval of ratios without an estimate: ``[-3.9, +9.2] %``."""
    places = min(decimals(*((end - 1) * 100 for end in (math.sqrt(low * high), low, high))), _PERCENT)
    return f"[{_change(low, places)}, {_change(high, places)}] %"


def size_interval(estimate: float, low: float, high: float) -> str:
    """Return a size in percent, which has no sign: ``2.3 % [1.1, 5.2]``."""
    places = min(decimals(estimate, low, high), _PERCENT)
    middle, least, most = (f"{round(value, places):,.{max(places, 0)}f}" for value in (estimate, low, high))
    return f"{middle} % [{least}, {most}]"


def share_interval(share: Interval) -> str:
    """Return a share of something else as a change: 0.034 is ``+3.4 % [+0.4, +6.4]``."""
    return percent_interval(share.map(lambda end: 1 + end))


def amount_interval(amount: Interval, unit: str = "s") -> str:
    """Return a difference in a unit: ``+0.21 s [+0.18, +0.24]``."""
    after = f" {unit}".rstrip()
    if amount.low is None or amount.high is None:
        return f"{amount.estimate:+z.{_OTHER}f}{after} {_NO_INTERVAL}"
    places = min(decimals(amount.estimate, amount.low, amount.high), _OTHER)
    return f"{_signed(amount.estimate, places)}{after} [{_signed(amount.low, places)}, {_signed(amount.high, places)}]"


def ratio_interval(item: Comparison) -> str:
    """Return ``1.056 [1.031, 1.082]``; a difference where a zero leaves no ratio."""
    return times_interval(item.estimate) if item.estimate else difference_interval(item)


def times_interval(ratio: Interval) -> str:
    """Return ``1.056 [1.031, 1.082]``."""
    if ratio.low is None or ratio.high is None:
        return f"{_times(ratio.estimate, _OTHER)} {_NO_INTERVAL}"
    places = min(decimals(ratio.estimate, ratio.low, ratio.high), _OTHER)
    return f"{_times(ratio.estimate, places)} [{_times(ratio.low, places)}, {_times(ratio.high, places)}]"


def difference_interval(item: Comparison, together: bool = False) -> str:
    """Return ``+0.21 s [+0.18, +0.24]``, more than the baseline; with the simultaneous interval if ``together``."""
    ends = item.difference_low, item.difference_high
    if together:
        ends = item.difference_low_all, item.difference_high_all
    return amount_interval(Interval(item.difference, *ends, item.n), item.unit)


def decimals(estimate: float, low: float, high: float) -> int:
    """Return where to round: the first digit that the interval makes doubtful, or one more where that is coarse.

    One more is a digit of figures below 100 whose distance to the nearer end begins with less than 5. Negative: tens,
    hundreds."""
    near = min(estimate - low, high - estimate)
    doubt = near if near > 0 else (high - low) / 2
    if not doubt < math.inf:
        return 0
    if doubt < _POINT:
        return _OTHER
    exponent = math.floor(math.log10(doubt))
    coarse = doubt / 10**exponent < 5 and (exponent > 0 or max(abs(low), abs(high)) < _LONG)
    return 1 - exponent if coarse else -exponent


def _change(value: float, places: int, after: str = "") -> str:
    """``after``: the unit, where it is written; a multiple has none."""
    return units.percent(value) if value >= _FOLD else f"{_signed((value - 1) * 100, places)}{after}"


def _signed(value: float, places: int) -> str:
    return f"{round(value, places):+z,.{max(places, 0)}f}"


def _times(value: float, places: int) -> str:
    return f"{round(value, places):,.{max(places, 0)}f}" if value < _LARGEST else f">{_LARGEST - 1:.0f}"
