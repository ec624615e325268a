"""Readers of what workloads print: text in, reported figures out. A new one is a file here and a line below. Pure."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable

from kit.core.errors import RunError
from kit.parsers.figure import Reported

Parser = Callable[[str], tuple[Reported, ...]]

#: What ``report = "NAME"`` of a phase may say, and what reads it, imported on use. Each raises ValueError with the
#: reason where a text can't be read.
PARSERS = {
    "lines": "kit.parsers.lines:parse_lines",
    "fio": "kit.parsers.fio:parse_fio",
    "bonnie": "kit.parsers.bonnie:parse_bonnie",
}
#: Characters of a report, figures in it, characters of a figure's name and unit: what a store holds.
LONGEST, MOST, LONGEST_NAME, LONGEST_UNIT = 16 << 20, 1000, 100, 40
#: Characters of a reason, which may hold what was printed.
_REASON = 300


def parse_report(name: str, text: str) -> tuple[Reported, ...]:
    """The figures in what a phase printed. Raises RunError with the reason where they can't be read."""
    parser: Parser = pkgutil.resolve_name(PARSERS[name])
    try:
        if len(text) > LONGEST:
            raise ValueError(f"it printed more than {LONGEST >> 20} Mi characters")
        found = parser(text)
        _check(found)
    except ValueError as error:
        raise RunError(
            f"the figures that it reports can't be read as {name}: {str(error)[:_REASON]}", "see its log"
        ) from None
    return found


def _check(found: tuple[Reported, ...]) -> None:
    if not found:
        raise ValueError("it printed no figures")
    if len(found) > MOST:
        raise ValueError(f"it printed more than {MOST} figures")
    for item in found:
        if not item.name or len(item.name) > LONGEST_NAME or len(item.unit) > LONGEST_UNIT:
            raise ValueError(f"the name or unit of '{item.name[:LONGEST_NAME]}' is empty or too long")
        if not (item.name + item.unit).isprintable():
            raise ValueError(f"the name or unit of {item.name!r} holds control characters")
