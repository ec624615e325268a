"""Reports of a session: tables, sentences, Markdown, JSON, CSV. Pure; imports words alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from kit.analysis.analyse import Analysis, analyse
from kit.model.session import Session
from kit.report.shown import shown

Renderer = Callable[[Session, Analysis], str]

#: Each format and what renders it, imported on use.
FORMATS = {
    "answer": "kit.report.answer:render_answer",
    "full": "kit.report.table:render_text",
    "explain": "kit.report.explain:render_explain",
    "markdown": "kit.report.table:render_markdown",
    "json": "kit.report.structured:render_json",
    "csv": "kit.report.structured:render_csv",
}


def render(name: str, session: Session, analysis: Analysis | None = None) -> str:
    """A session in one of FORMATS; ``analysis`` where it is known already."""
    module, _, function = FORMATS[name].partition(":")
    renderer: Renderer = getattr(importlib.import_module(module), function)
    return renderer(*shown_session(session, analysis))


def shown_session(session: Session, analysis: Analysis | None = None) -> tuple[Session, Analysis]:
    """A session as it may be shown, with its analysis, which is made anew where a text had to change."""
    made = shown(session)
    return made, analysis if analysis and made is session else analyse(made)
