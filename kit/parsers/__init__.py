"""Readers of what workloads print: text in, reported figures out. A new one is a file here and a line below. Pure."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from kit.reported import Reported

Parser = Callable[[str], tuple[Reported, ...]]

#: What ``report = "NAME"`` of a phase may say, and what reads it, imported on use.
PARSERS = {
    "lines": "kit.parsers.lines:parse_lines",
    "fio": "kit.parsers.fio:parse_fio",
    "bonnie": "kit.parsers.bonnie:parse_bonnie",
}


def parse_report(name: str, text: str) -> tuple[Reported, ...]:
    """The figures in what a phase printed. Raises ValueError with the reason where they can't be read."""
    module, _, function = PARSERS[name].partition(":")
    parser: Parser = getattr(importlib.import_module(module), function)
    found = parser(text)
    if not found:
        raise ValueError("it printed no figures")
    return found
