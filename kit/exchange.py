"""Sessions as one file, to take from one store to another. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kit.errors import UsageError
from kit.record import Session
from kit.wire import decode, encode

#: Raised when an older kit could not read what this one writes.
EXPORT_SCHEMA = 1
_KEY = "kit-export"


def dump(sessions: Sequence[Session]) -> str:
    """Sessions with all their samples, as JSON."""
    return json.dumps({_KEY: EXPORT_SCHEMA, "sessions": [encode(item) for item in sessions]}) + "\n"


def is_export(text: str) -> bool:
    return text.lstrip()[:40].startswith(f'{{"{_KEY}"')


def load(text: str, source: str) -> tuple[Session, ...]:
    """What ``dump`` wrote; ``source`` names it in errors. Raises UsageError."""
    try:
        document: dict[str, Any] = json.loads(text)
        if document[_KEY] > EXPORT_SCHEMA:
            raise UsageError(f"{source}: written by a newer kit (schema {document[_KEY]})", "update the kit")
        return tuple(replace(decode(Session, item), imported=True) for item in document["sessions"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{source}: not an export of the kit's: {error}", "kit export SESSION -o FILE") from None
