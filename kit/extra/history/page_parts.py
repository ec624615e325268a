"""Generated parts of the docs."""

from __future__ import annotations

from kit.cli.pages.parts import keys_table
from kit.extra.history.nightly.file import known_keys


def nightly_keys() -> str:
    """All keys of a nightly file, as it is read."""
    return keys_table(known_keys())
