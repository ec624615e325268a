"""Rows as CSV, which a spreadsheet opens without taking a text for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render_sheet(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """A line of names, then one for each row; what a row has beside them is left out."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([_cell(name) for name in names])
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """A text that would begin a formula begins with an apostrophe instead; figures stay as they are."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) and not _is_number(value) else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
