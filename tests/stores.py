"""Exported sessions, and new stores. Only the first store is made table by table; the others are copies of its file."""

import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from kit.model.session import Session
from kit.store import Store, open_store
from kit.store.exchange import dump_lines


def dump(sessions: Iterable[Session]) -> str:
    """Return the sessions as ``kit export`` writes them."""
    return "".join(dump_lines(sessions))


def new_store(path: Path) -> Store:
    """In a file that is there, as it is."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_empty())
    return open_store("", path)


@cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "kit.db"
        open_store("", path).close()
        return path.read_bytes()
