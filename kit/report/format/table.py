"""Tables of texts, for a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
