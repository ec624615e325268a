"""Numbers as people read them, always with a unit; kit.report.interval has those with an interval."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Protocol

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


def duration(seconds: float) -> str:
    """Return ``45 s``, ``8 min 20 s``, ``10 min``, ``2 h 05 min``."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    if not minutes:
        return f"{rest} s"
    return f"{minutes} min {rest:02d} s" if rest else f"{minutes} min"


def about(seconds: float) -> str:
    """Return a coarse duration, for estimates: ``about 40 s``, ``about 3 min``."""
    if seconds < 90:
        return f"about {max(5 * round(seconds / 5), 5)} s"
    return f"about {seconds / 60:.0f} min"


def listed(names: Sequence[str], word: str = "and") -> str:
    """Return ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"


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
