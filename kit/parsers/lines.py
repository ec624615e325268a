"""The kit's own form, for programs and scripts: lines ``kit: NAME = VALUE UNIT``, some with ``, more is better``."""

from __future__ import annotations

import math
import re

from kit.parsers.figure import LESS, MORE, Reported

_LINE = re.compile(r"^kit: (?P<name>[^=]+?) = (?P<value>\S+)(?: (?P<unit>[^,]*?))?(?P<more>, more is better)?$")


def parse_lines(text: str) -> tuple[Reported, ...]:
    """Parse the lines. Raises ValueError for a line that begins like one but is malformed."""
    figures = []
    for line in text.splitlines():
        if not line.startswith("kit: "):
            continue
        match = _LINE.match(line.rstrip())
        if not match:
            raise ValueError(f"not 'kit: NAME = VALUE UNIT': {line!r}")
        value = float(match["value"])
        if not math.isfinite(value):
            raise ValueError(f"not a number: {line!r}")
        figures.append(Reported(match["name"], value, match["unit"] or "", MORE if match["more"] else LESS))
    return tuple(figures)
