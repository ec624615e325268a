"""Rows as CSV, safe in a spreadsheet: no text is read as a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render_sheet(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a line of names, then one for each row; a row's other fields are left out."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([_cell(name) for name in names])
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Return the cell; an apostrophe precedes text that would begin a formula. Figures stay as they are."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) and not _is_number(value) else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
