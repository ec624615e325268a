"""Markdown of generated parts: tables, and words as code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [[_cell(text) for text in row] for row in rows]
    lines = [heads, ["---"] * len(heads), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(text: str) -> str:
    """In code a bar needs no escape."""
    escaped = re.sub(r"(`[^`]*`)|\|", lambda match: match[1] or "\\|", text)
    return escaped.replace("\n", " ")


def code(words: Iterable[object]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def keys_table(tables: Mapping[str, Mapping[str, str]]) -> str:
    """Return the keys of a file, by its tables; ``top``: those of none."""
    rows = [(f"`{where}`" if where != "top" else where, f"`{key}`", text)
            for where, keys in tables.items() for key, text in keys.items()]  # fmt: skip
    return table(("table", "key", "is"), rows)
