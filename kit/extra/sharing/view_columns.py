"""The columns of the views, for a page of the documentation."""

from __future__ import annotations

from kit.cli.pages.parts import code, table
from kit.extra.sharing.views import COLUMNS


def store_views() -> str:
    rows = [(f"`{view}`", code(names), text) for view, columns in COLUMNS.items() for names, text in columns.items()]
    return table(("view", "column", "is"), rows)
