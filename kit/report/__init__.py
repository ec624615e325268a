"""Reports of a session: text for a terminal, Markdown, JSON, CSV. Pure; imports words alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

from kit.compare import Comparison
from kit.record import Session

Renderer = Callable[[Session, Sequence[Comparison]], str]

#: Each format and what renders it, imported on use.
FORMATS = {
    "table": "kit.report.table:render_text",
    "markdown": "kit.report.table:render_markdown",
    "json": "kit.report.structured:render_json",
    "csv": "kit.report.structured:render_csv",
}


def render(name: str, session: Session, comparisons: Sequence[Comparison]) -> str:
    module, _, function = FORMATS[name].partition(":")
    renderer: Renderer = getattr(importlib.import_module(module), function)
    return renderer(session, comparisons)
