"""What a page shows of a session: the session, its analysis, and the pictures of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.analysis.fleet.split_session import answer_split
from kit.analysis.history.changepoint import ChangeHistory
from kit.analysis.history.regression import Finding
from kit.analysis.session.analyse import Analysis, whole_real
from kit.analysis.session.threshold import Threshold
from kit.analysis.traces.profiles import analyse_profiles
from kit.model.fact import makers
from kit.model.session import Session
from kit.report import shown_session
from kit.report.fleet.cost import FleetView, view_fleet_cost
from kit.report.format import units
from kit.report.format.interval import percent_interval
from kit.report.history.history import change_lines, commits_of
from kit.report.plot import Picture, plot_attribution, plot_flame, plot_intervals, plot_runs, plot_tasks, plot_track
from kit.report.text.explain import Explanation, explain
from kit.report.text.profile import ProfileTable, about, differs, tables
from kit.report.text.tasks import TaskTable, task_tables


@dataclass(frozen=True)
class TrackView:
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
class FlameView:
    """A flame graph with its tables."""

    picture: Picture
    coloured: bool  # against a baseline
    line: str  # what differs, in words
    tables: Sequence[ProfileTable]


@dataclass(frozen=True)
class ProfileView:
    """Profiles at one point."""

    about: str
    flames: Sequence[FlameView]


@dataclass(frozen=True)
class SessionView:
    """Content of session.html.j2: a session, its analysis, and the pictures of both."""

    session: Session
    analysis: Analysis
    explanation: Explanation
    findings: Sequence[Finding]
    fleet_cost: FleetView | None  # of a session on several machines
    intervals: Picture | None
    attribution: Picture | None
    runs: Picture | None
    tasks: Sequence[TasksView]
    profiles: Sequence[ProfileView]
    tracks: Sequence[TrackView]
    #: Addresses of the data, by name; without any, data are part of the page.
    links: Sequence[tuple[str, str]] = ()

    @property
    def pictures(self) -> list[Picture]:
        pictures = [self.intervals, self.attribution, *(part.picture for part in self.tasks), self.runs]
        pictures += [flame.picture for part in self.profiles for flame in part.flames]
        pictures += [track.picture for track in self.tracks]
        return [picture for picture in pictures if picture]


def view(
    session: Session,
    analysis: Analysis,
    tracks: Sequence[ChangeHistory] = (),
    findings: Sequence[Finding] = (),
    links: Sequence[tuple[str, str]] = (),
) -> SessionView:
    """Return the view. ``tracks``: a series of one session is left out. ``links``: addresses of the data, by name;
    without any, data are part of the page."""
    session, analysis = shown_session(session, analysis)
    limits = [finding.threshold for finding in findings]
    several = [track for track in tracks if len(track.series.entries) > 1]
    return SessionView(
        session=session,
        analysis=analysis,
        explanation=explain(session, analysis),
        findings=findings,
        fleet_cost=view_fleet_cost(answer_split(session)) if makers(session.facts) else None,
        intervals=plot_intervals(whole_real(analysis.comparisons), analysis.margin, f"{session.id}-intervals"),
        attribution=plot_attribution(analysis.whole_ladders, f"{session.id}-attribution"),
        runs=plot_runs(analysis.arms, f"{session.id}-runs"),
        tasks=_tasks(session, analysis),
        profiles=_profiles(session),
        tracks=[track_view(track, limits, f"{session.id}-history-{i}") for i, track in enumerate(several, 1)],
        links=links,
    )


def _tasks(session: Session, analysis: Analysis) -> list[TasksView]:
    tables = task_tables(analysis, "; ")
    places = dict.fromkeys((table.phase, table.point) for table in tables)
    views = []
    for i, (phase, point) in enumerate(places, 1):
        picture = plot_tasks([runs for runs in analysis.arms if runs.point == point], phase, f"{session.id}-tasks-{i}")
        views.append(TasksView(picture, [table for table in tables if (table.phase, table.point) == (phase, point)]))
    return views


def _profiles(session: Session) -> list[ProfileView]:
    views = []
    for i, analysis in enumerate(analyse_profiles(session), 1):
        description = about(analysis)
        name = f"{session.id}-flame-{i}-"
        flames = [
            FlameView(plot_flame(flame, arm, "", f"{name}{number}", description), False, "", ())
            for number, (arm, flame) in enumerate(analysis.flames.items(), 1)
        ]
        for number, profile in enumerate(analysis.arms, len(flames) + 1):
            picture = plot_flame(profile.flame, profile.arm, profile.baseline, f"{name}{number}", description)
            flames.append(FlameView(picture, True, differs(profile, analysis.point), tables(profile, analysis.point)))
        views.append(ProfileView(description, flames))
    return views


def track_view(track: ChangeHistory, limits: Sequence[Threshold], name: str) -> TrackView:
    """Return a series as a plot, sentences and a table; with the limit on the whole run if ``limits`` has one."""
    newest = track.series.entries[-1].outcome
    comparison = newest.comparison
    matching = [
        threshold.limit
        for threshold in limits
        if (threshold.arm, threshold.metric) == (comparison.arm, comparison.metric)
        and (threshold.phase == comparison.phase if threshold.phase else newest.whole)
    ]
    commits = commits_of(track.series.entries)
    rows = [
        (
            entry.session,
            units.moment(entry.created),
            *([commit or units.NOTHING] if any(commits) else []),
            units.seconds(entry.outcome.mean),
            units.seconds(entry.outcome.base_mean),
            percent_interval(entry.outcome.comparison.estimate),
        )
        for entry, commit in zip(track.series.entries, commits, strict=True)
    ]
    headers = ("session", "date, UTC", *(["commit"] if any(commits) else []), "arm", "baseline", "change, 95 %")
    lines = change_lines(track)
    if track.series.began_with:
        lines.append(f"this series began because these changed: {'; '.join(map(str, track.series.began_with))}")
    picture = plot_track(track, matching[0] if matching else None, name)
    return TrackView(picture, lines, headers, rows)
