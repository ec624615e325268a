"""The section of a session's page on the machines that shared it."""

from __future__ import annotations

from kit.analysis.session.analyse import Analysis
from kit.extra.fleet.analysis.split_session import answer_split
from kit.extra.fleet.report.cost import view_fleet_cost
from kit.model.fact import makers
from kit.model.session import Session
from kit.report.page.section import PageSection, SectionView


def show_machines(session: Session, analysis: Analysis) -> SectionView | None:
    """Return the answer for all machines like those of the session; None for a session of one machine."""
    if not makers(session.facts):
        return None
    return SectionView("fleet_section.html.j2", view_fleet_cost(answer_split(session)), beside_answer=True)


SECTIONS = (PageSection(show_machines),)
