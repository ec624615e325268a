"""Directories for what is being made."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.host.beneath.remove import remove


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A new directory in ``parent``, the user's alone, for the length of the block; then it is removed with all that it
    holds. What a builder has left mounted in it is not: that raises RunError."""
    path = Path(tempfile.mkdtemp(prefix=".new-", dir=parent))
    try:
        yield path
    finally:
        remove(path)
