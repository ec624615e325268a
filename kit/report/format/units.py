"""Numbers with units in readable form; kit.report.format.interval has those with an interval."""

from __future__ import annotations

import math
import time
from typing import Protocol

from kit.model.metric import SECONDS

NOTHING = "–"
_YEAR_10000 = 253402300800
#: A ratio beyond any of measured times.
_ANY = 100_000


def seconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    if value >= 600:
        minutes, remainder = divmod(round(value, 1), 60)
        return f"{int(minutes)} min {remainder:04.1f} s"
    return f"{value:.3f} s" if value < 10 else f"{value:.2f} s" if value < 100 else f"{value:.1f} s"


def amount(value: float | None, unit: str) -> str:
    """Return a figure of any unit: times as ``seconds``, else ``1,234 B``; four significant digits, no exponent."""
    if value is None or unit == SECONDS:
        return seconds(value)
    return f"{number(value)} {unit}".rstrip()


def number(value: float) -> str:
    """Return four significant digits, no exponent."""
    if value == int(value):
        return f"{value:,.0f}"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 6)}f}"


def chance(p: float) -> str:
    """Return the probability of as clear a change at random: ``p 0.0004``; below the limit, ``p < 0.0001``."""
    return f"p {p:.1g}" if p >= 1e-4 else "p < 0.0001"


class Pair(Protocol):
    """An arm compared with its baseline at a point."""

    @property
    def arm(self) -> str: ...
    @property
    def baseline(self) -> str: ...
    @property
    def point(self) -> str: ...


def against(pair: Pair) -> str:
    """Return ``layer:overlay2 / bare at jobs=2``."""
    return f"{pair.arm} / {pair.baseline}{at(pair.point)}"


def moment(seconds: float, form: str = "%Y-%m-%d %H:%M") -> str:
    """Return Unix time as ``2026-11-21 19:07``, UTC; an imported session's time may be outside the calendar."""
    return time.strftime(form, time.gmtime(seconds)) if 0 <= seconds < _YEAR_10000 else NOTHING


def about(seconds: float) -> str:
    """Return a coarse duration, for estimates: ``about 40 s``, ``about 3 min``."""
    if seconds < 90:
        return f"about {max(5 * round(seconds / 5), 5)} s"
    return f"about {seconds / 60:.0f} min"


def at(point: str) -> str:
    """Return `` at jobs=2``, for a heading; empty without a swept parameter."""
    return f" at {point}" if point else ""


def share(value: float, digits: int = 0) -> str:
    """Return a part of a whole: ``80 %`` for 0.8."""
    return f"{100 * value:.{digits}f} %"


def asked(value: float) -> str:
    """Return a share as requested: ``99.5 %`` for 0.995."""
    return f"{100 * value:.6g} %"


def percent(value: float) -> str:
    """Return a ratio as a change: ``+5.6 %`` for 1.056. Two or three rounds that differ much give intervals of any
    size: ends beyond a hundred thousand only mean that the value is unknown."""
    if value < 100:
        return f"{(value - 1) * 100:+z.1f} %"
    return f"{value:.0f}-fold" if value < _ANY else f"> {_ANY:,}-fold"
