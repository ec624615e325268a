"""New stores, of which the first alone is made table by table: the others are copies of its file."""

import tempfile
from functools import cache
from pathlib import Path

from kit.store import Store, open_store


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
