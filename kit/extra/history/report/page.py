"""Histories and nights on pages: a series as a picture with its sentences, and all sessions of a night."""

from __future__ import annotations

from collections.abc import Sequence

from kit.analysis.session.threshold import Threshold
from kit.extra.history.analysis.changepoint import ChangeHistory
from kit.extra.history.analysis.night import Night
from kit.extra.history.analysis.regression import Finding
from kit.extra.history.report.history import change_lines, commits_of
from kit.extra.history.report.night import headlines, result
from kit.extra.history.report.plot import plot_track
from kit.report.format import units
from kit.report.format.interval import percent_interval
from kit.report.format.sanitize import shown
from kit.report.page.html import render_html
from kit.report.page.page import TrackView, view


def render_night_html(night: Night) -> str:
    """Return every session of a night, with the most important lines at the top."""
    views = [
        view(
            part.session,
            part.analysis,
            track_views(part.tracks, shown(part.session).id, [finding.threshold for finding in part.findings]),
            list(map(finding_row, part.findings)),
        )
        for part in night.parts
        if part.session and part.analysis
    ]
    return render_html(f"{night.name}: {result(night)}", views, headlines(night))


def track_views(
    tracks: Sequence[ChangeHistory], session: str, limits: Sequence[Threshold] = ()
) -> tuple[TrackView, ...]:
    """Return the series of a session, by its id; one of a single session is left out."""
    several = [track for track in tracks if len(track.series.entries) > 1]
    return tuple(track_view(track, limits, f"{session}-history-{i}") for i, track in enumerate(several, 1))


def finding_row(finding: Finding) -> tuple[str, str, str, str]:
    comparison = finding.comparison
    interval = percent_interval(comparison.estimate) if comparison else units.NOTHING
    return (
        f"{finding.threshold}{units.at(comparison.point) if comparison else ''}",
        finding.status,
        interval,
        finding.why,
    )


def track_view(track: ChangeHistory, limits: Sequence[Threshold], name: str) -> TrackView:
    """Return a series as a plot, sentences and a table; with the limit on the whole run if ``limits`` has one."""
    newest = track.series.entries[-1].outcome
    comparison = newest.comparison
    track_limits = [
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
    picture = plot_track(track, track_limits[0] if track_limits else None, name)
    return TrackView(picture, lines, headers, rows)
