"""Reports of a session, two sessions, a fleet: tables, sentences, Markdown, JSON, CSV, pages, plots. Each is a line of
``renderer``. Pure: computes no figure. Imports analysis, model, parsers and core alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.report.renderer import SESSION, find

if TYPE_CHECKING:
    from kit.analysis.session.analyse import Analysis
    from kit.model.session import Session


def render(name: str, session: Session, analysis: Analysis | None = None) -> str:
    """Return a session in that renderer's form; ``analysis`` if it is known already."""
    return find(SESSION, name).render(*shown_session(session, analysis))


def shown_session(session: Session, analysis: Analysis | None = None) -> tuple[Session, Analysis]:
    """Return a session safe to show, with its analysis, which is recomputed if a text had to change."""
    from kit.analysis.session.analyse import analyse
    from kit.report.format.sanitize import shown

    safe = shown(session)
    return safe, analysis if analysis and safe is session else analyse(safe)
