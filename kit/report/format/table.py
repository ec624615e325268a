"""Tables of texts, for a terminal or as Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tabulate import tabulate

#: What tabulate calls a table of GitHub Flavored Markdown.
GITHUB = "github"


def render_table(rows: Iterable[Sequence[str]], headers: Sequence[str], tablefmt: str) -> str:
    """Return the table. Markdown would begin a cell at each bar, so bars are escaped: an arm may be ``a | b``."""
    if tablefmt == GITHUB:
        rows, headers = [_escaped(row) for row in rows], _escaped(headers)
    return tabulate(list(rows), headers, tablefmt=tablefmt, disable_numparse=True)


def _escaped(cells: Sequence[str]) -> list[str]:
    return [cell.replace("|", r"\|") for cell in cells]


# Rows as CSV, safe in a spreadsheet: no text is read as a formula.

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
