"""The document of ``kit sync --json``."""

from __future__ import annotations

from kit.cli.document import Document, list_of, record

_WAITING = record("WaitingOutbox", session=str, runs=int, store=str, reason=str, file=str)

SYNC = Document(
    "kit sync --json", {"store": str, "delivered": list_of(_WAITING), "waits": list_of(_WAITING)}, after="doctor"
)
