"""Text files that users name: read whole, in UTF-8, within bounds."""

from __future__ import annotations

from pathlib import Path

from kit.core.errors import UsageError
from kit.core.toml import LONGEST


def read_text(path: Path, hint: str) -> str:
    """The text of a file; ``hint`` says what to name instead where there is none. Raises UsageError."""
    try:
        with path.open("rb") as file:
            data = file.read(4 * LONGEST + 1)  # a character has four bytes at most
        if len(data) > 4 * LONGEST:
            raise UsageError(f"{path}: has more than {LONGEST} characters", hint)
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8", "save the file in UTF-8") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint) from None
