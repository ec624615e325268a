"""Tells one program's JSON from another's. Pure."""

from __future__ import annotations

import msgspec


def has_list(text: str, key: str, of: str) -> bool:
    """Return whether the text is an object with a list ``key`` whose first item has the key ``of``."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        items = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).get(key, b"")
        first, *_ = msgspec.json.decode(items, type=list[dict[str, msgspec.Raw]])
    except (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError):
        return False
    return of in first
