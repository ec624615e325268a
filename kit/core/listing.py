"""Names of many in few words, and in the order that people count in. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence


def listed(names: Sequence[str], most: int, between: str = ", ") -> str:
    """``b1, b2 and 6 more``; all, where only one would be left out."""
    if len(names) <= most + 1:
        return between.join(names)
    return f"{between.join(names[:most])} and {len(names) - most} more"


def counted(name: str) -> tuple[str | int, ...]:
    """What names are sorted by, so that b2 comes before b10."""
    return tuple(int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", name)))
