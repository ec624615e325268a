"""What a page shows of a session: the session, its analysis, and the pictures of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kit.analysis.session.analyse import Analysis, whole_real
from kit.extensions import added
from kit.model.session import Session
from kit.report import shown_session
from kit.report.page.section import SectionView, page_sections
from kit.report.plot import Picture, plot_attribution, plot_intervals, plot_runs, plot_tasks
from kit.report.text.explain import Explanation, explain
from kit.report.text.tasks import TaskTable, task_tables


@dataclass(frozen=True)
class TrackView:
    """Earlier sessions beside this one: a series of one arm."""

    picture: Picture
    lines: Sequence[str]
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class TasksView:
    """Tasks of one phase at one point."""

    picture: Picture | None
    tables: Sequence[TaskTable]


@dataclass(frozen=True)
class SessionView:
    """Content of session.html.j2: a session, its analysis, and the pictures of both."""

    session: Session
    analysis: Analysis
    explanation: Explanation
    findings: Sequence[Sequence[str]]
    intervals: Picture | None
    attribution: Picture | None
    runs: Picture | None
    tasks: Sequence[TasksView]
    sections: Sequence[SectionView]  # of extras
    tracks: Sequence[TrackView]
    #: Addresses of the data, by name; without any, data are part of the page.
    links: Sequence[tuple[str, str]] = ()

    @property
    def pictures(self) -> list[Picture]:
        pictures = [self.intervals, self.attribution, *(part.picture for part in self.tasks), self.runs]
        pictures += [picture for section in self.sections for picture in section.pictures]
        pictures += [track.picture for track in self.tracks]
        return [picture for picture in pictures if picture]


def view(
    session: Session,
    analysis: Analysis,
    tracks: Sequence[TrackView] = (),
    findings: Sequence[Sequence[str]] = (),
    links: Sequence[tuple[str, str]] = (),
) -> SessionView:
    """Return the view. ``findings``: of each threshold itself, its result, interval and reason. ``links``: addresses of
    the data, by name; without any, data are part of the page."""
    session, analysis = shown_session(session, analysis)
    return SessionView(
        session=session,
        analysis=analysis,
        explanation=explain(session, analysis),
        findings=findings,
        intervals=plot_intervals(whole_real(analysis.comparisons), analysis.margin, f"{session.id}-intervals"),
        attribution=plot_attribution(analysis.whole_ladders, f"{session.id}-attribution"),
        runs=plot_runs(analysis.arms, f"{session.id}-runs"),
        tasks=_tasks(session, analysis),
        sections=[content for section in page_sections() if (content := section.show(session, analysis))],
        tracks=tracks,
        links=links,
    )


def find_tracks(session: Session, analysis: Analysis, store: Any) -> tuple[TrackView, ...]:
    """Return the session's series. ``store``: a kit.store.Store, which no report knows."""
    return tuple(track for tracks in added("tracks") for track in tracks(session, analysis, store))


def _tasks(session: Session, analysis: Analysis) -> list[TasksView]:
    tables = task_tables(analysis, "; ")
    places = dict.fromkeys((table.phase, table.point) for table in tables)
    views = []
    for i, (phase, point) in enumerate(places, 1):
        picture = plot_tasks([runs for runs in analysis.arms if runs.point == point], phase, f"{session.id}-tasks-{i}")
        views.append(TasksView(picture, [table for table in tables if (table.phase, table.point) == (phase, point)]))
    return views
