"""Reports of a session, a night, a farm: tables, sentences, Markdown, JSON, CSV, pages, plots. Each is a line of
``renderer``. Pure: computes no figure. Imports analysis, model, parsers and core alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.report.renderer import SESSION, find

if TYPE_CHECKING:
    from kit.analysis.analyse import Analysis
    from kit.model.session import Session


def render(name: str, session: Session, analysis: Analysis | None = None) -> str:
    """A session by that renderer; ``analysis`` where it is known already."""
    return find(SESSION, name).render(*shown_session(session, analysis))


def shown_session(session: Session, analysis: Analysis | None = None) -> tuple[Session, Analysis]:
    """A session as it may be shown, with its analysis, which is made anew where a text had to change."""
    from kit.analysis.analyse import analyse
    from kit.report.shown import shown

    made = shown(session)
    return made, analysis if analysis and made is session else analyse(made)
