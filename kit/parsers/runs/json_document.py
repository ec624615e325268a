"""Reads one program's JSON, and tells it from another's. Pure."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from kit.core.codec import decode_json
from kit.core.errors import UsageError

T = TypeVar("T")


def read_document(kind: type[T], text: str, head: tuple[str, str], where: str, program: str) -> T | None:
    """Return the document; None if it is another program's. ``head``: the key of its list, and a key that the first
    item of the list has. ``where``: the file's name. Raises UsageError."""
    if not _has_list(text, *head):
        return None
    try:
        return decode_json(kind, text)
    except UsageError as error:
        raise UsageError(f"{where}: not JSON of {program}: {error.message}", "export it again") from None


def _has_list(text: str, key: str, of: str) -> bool:
    """Return whether the text is an object with a list ``key`` whose first item has the key ``of``."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        items = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).get(key, b"")
        first, *_ = msgspec.json.decode(items, type=list[dict[str, msgspec.Raw]])
    except (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError):
        return False
    return of in first
