"""Markdown of generated parts: tables, and words as code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


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
