"""Numbers as people read them, always with a unit; a number that has no interval says so."""

from __future__ import annotations

import math
import time
from typing import Protocol

from kit.analysis.compare import Comparison
from kit.analysis.stacks import StackCost
from kit.model.metric import SECONDS

NOTHING = "–"
_YEAR_10000 = 253402300800
#: A ratio that none of measured times comes near.
_ANY = 100_000


def seconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    if value >= 600:
        minutes, rest = divmod(value, 60)
        return f"{int(minutes)}m{rest:06.3f}s"
    return f"{value:.3f} s" if value < 10 else f"{value:.2f} s" if value < 100 else f"{value:.1f} s"


def amount(value: float | None, unit: str) -> str:
    """A figure of any unit: times as ``seconds``, else ``1,234 B``, four digits that count, no exponent."""
    if value is None or unit == SECONDS:
        return seconds(value)
    return f"{number(value)} {unit}".rstrip()


def number(value: float) -> str:
    """Four digits that count, no exponent."""
    if value == int(value):
        return f"{value:,.0f}"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 6)}f}"


def ratio(item: Comparison) -> str:
    """``1.056 (1.031–1.082)``; a difference where a zero leaves no ratio."""
    if item.ratio is None:
        return difference(item)
    if item.low is None or item.high is None:
        return f"{_times(item.ratio)} (no interval)"
    return f"{_times(item.ratio)} ({_times(item.low)}–{_times(item.high)})"


def difference(item: Comparison) -> str:
    """``+0.21 s (+0.18…+0.24)`` more than the baseline."""
    unit = f" {item.unit}".rstrip()
    if item.difference_low is None or item.difference_high is None:
        return f"{item.difference:+z.3f}{unit} (no interval)"
    return f"{item.difference:+z.2f}{unit} ({item.difference_low:+z.2f}…{item.difference_high:+z.2f})"


def more_seconds(item: StackCost, alone: bool = False) -> str:
    """``+0.123 s (+0.080…+0.166)``: the interval that holds with all of its family at once, or ``alone``."""
    low, high = (item.low, item.high) if alone else (item.low_all, item.high_all)
    if low is None or high is None:
        return f"{item.difference:+z.3f} s (no interval)"
    return f"{item.difference:+z.3f} s ({low:+z.3f}…{high:+z.3f})"


def _times(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 1000 else ">999"


def chance(p: float) -> str:
    """Of so clear a change where there is none: ``p 0.0004``; below what is worth telling apart, ``p < 0.0001``."""
    return f"p {p:.1g}" if p >= 1e-4 else "p < 0.0001"


class Pair(Protocol):
    """What compares an arm with its baseline at a point."""

    @property
    def arm(self) -> str: ...
    @property
    def baseline(self) -> str: ...
    @property
    def point(self) -> str: ...


def against(item: Pair) -> str:
    """``layer:overlay2 / bare at jobs=2``."""
    return f"{item.arm} / {item.baseline}{at(item.point)}"


def moment(seconds: float, form: str = "%Y-%m-%d %H:%M") -> str:
    """Unix time as ``2026-11-21 19:07``, UTC; a session from elsewhere may claim a time that no calendar has."""
    return time.strftime(form, time.gmtime(seconds)) if 0 <= seconds < _YEAR_10000 else NOTHING


def at(point: str) -> str:
    """`` at jobs=2``, for a heading; nothing where no parameter is swept."""
    return f" at {point}" if point else ""


def share(value: float, digits: int = 0) -> str:
    """A part of a whole: 0.8 → ``80 %``."""
    return f"{100 * value:.{digits}f} %"


def asked(value: float) -> str:
    """A share as it was asked for: 0.995 → ``99.5 %``."""
    return f"{100 * value:.6g} %"


def percent(value: float) -> str:
    """A ratio as a change: 1.056 → ``+5.6 %``. The end of an interval of two or three blocks that differ by much may be
    any number: beyond a hundred thousand it says no more than that nothing is known."""
    if value < 100:
        return f"{(value - 1) * 100:+z.1f} %"
    return f"{value:.0f}-fold" if value < _ANY else f"> {_ANY:,}-fold"
