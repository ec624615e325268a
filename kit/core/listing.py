"""Lists of names in words, long ones in brief, and in natural order. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence


def listed(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return ``b1, b2 and 6 more``; all names if only one would be left out."""
    if len(names) <= most + 1:
        return between.join(names)
    return f"{between.join(names[:most])} and {len(names) - most} more"


def in_words(names: Sequence[str], word: str = "and") -> str:
    """Return ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"


def counted(name: str) -> tuple[str | int, ...]:
    """Return the sort key of a name, so that b2 comes before b10."""
    return tuple(int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", name)))
