"""A night in brief: what regressed, what could not run, each threshold, each penalty; as Markdown, text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from kit.analysis.session.analyse import whole_real
from kit.extra.history.analysis.changepoint import ChangeHistory
from kit.extra.history.analysis.night import Night, Part
from kit.extra.history.analysis.regression import GOOD, MISSING, OVER, REGRESSION, SUSPECT, UNDECIDED, Finding
from kit.extra.history.report.change_attribution import common_lines
from kit.extra.history.report.history import change_lines
from kit.report.format import units
from kit.report.format.interval import percent_interval
from kit.report.format.sanitize import shown
from kit.report.format.table import GITHUB, render_table
from kit.report.format.verdict import sentence
from kit.report.format.wrap import wrap

#: From the worst to the best. A night's result is its worst threshold; items that could not run rank between.
_WORST = (REGRESSION, OVER, MISSING, SUSPECT, UNDECIDED, GOOD)
_RESULTS = {REGRESSION: "REGRESSION", OVER: "OVER ITS LIMIT", MISSING: "could not run"}


def result(night: Night) -> str:
    """Return the worst threshold's result: ``good``, ``suspect``, ``OVER ITS LIMIT``, ``REGRESSION``, …"""
    statuses = {finding.status for finding in night.findings} | {MISSING for part in night.parts if part.exit_code}
    worst = next((status for status in _WORST if status in statuses), GOOD)
    return _RESULTS.get(worst, worst)


def headlines(night: Night) -> list[str]:
    """Return the most important lines: why the night fails, what could not run, what may become worse."""
    lines = [_finding_line(finding) for finding in night.findings if finding.fails]
    for part in night.parts:
        if part.error:
            lines.append(f"{part.name}: {'could not run' if part.session is None else 'incomplete'}: {part.error}")
        lines += [_finding_line(finding) for finding in part.findings if finding.status == MISSING]
        limited = {finding.threshold.arm for finding in part.findings}
        lines += [
            f"{part.name}: {blocked.arm} not run: {blocked.reason}; fix: {blocked.fix}"
            for blocked in part.missed
            if blocked.arm not in limited
        ]
    return lines + [
        _finding_line(finding) for finding in night.findings if finding.status in (OVER, SUSPECT) and not finding.fails
    ]


def render_summary(night: Night, markdown: bool = True) -> str:
    """Return text for the step summary of a CI job, or for a terminal."""
    night = shown(night)
    when = f"{units.moment(night.started)} UTC"
    head = f"{night.name}: {result(night)}, {when}"
    parts = [f"## {head}" if markdown else head]
    parts += [_bold(line, markdown) for line in headlines(night)]
    for part in night.parts:
        parts += _part(part, markdown)
    return "\n\n".join(part for part in parts if part) + "\n"


def render_night_text(night: Night) -> str:
    return render_summary(night, markdown=False)


def _bold(text: str, markdown: bool) -> str:
    return f"**{text}**" if markdown else wrap(text)


def _finding_line(finding: Finding) -> str:
    comparison = finding.comparison
    interval = f"{percent_interval(comparison.estimate)}; " if comparison else ""
    at = units.at(comparison.point) if comparison else ""
    return f"{finding.status.upper()}: {finding.threshold}{at}: {interval}{finding.why}"


def _part(part: Part, markdown: bool) -> Iterator[str]:
    tablefmt = GITHUB if markdown else "simple"
    name = f"{part.name}, session {part.session.id}" if part.session else part.name
    if part.session and part.session.guest:
        name += f", IN A GUEST: {part.session.guest}"
    yield f"### {name}" if markdown else name
    if part.findings:
        rows = [_threshold_row(finding) for finding in part.findings]
        yield render_table(rows, ["threshold", "result", "individual 95 %", "why"], tablefmt)
    if part.analysis:
        verdict_rows = [
            [units.against(comparison), percent_interval(comparison.estimate),
             sentence(comparison, part.analysis.margin)]
            for comparison in whole_real(part.analysis.comparisons)
        ]  # fmt: skip
        if verdict_rows:
            yield render_table(verdict_rows, ["real time, whole run", "individual 95 %", "verdict"], tablefmt)
    lines = [line for track in part.tracks for line in _track_lines(track)]
    lines += common_lines(part.common)
    lines += (
        [f"Not run: {blocked.arm}: {blocked.reason}; fix: {blocked.fix}" for blocked in part.session.not_run]
        if (part.session)
        else []
    )
    yield "\n".join(f"- {line}" if markdown else wrap(line) for line in lines)


def _threshold_row(finding: Finding) -> list[str]:
    comparison = finding.comparison
    interval = percent_interval(comparison.estimate) if comparison else units.NOTHING
    at = units.at(comparison.point) if comparison else ""
    return [f"{finding.threshold}{at}", finding.status, interval, finding.why]


def _track_lines(track: ChangeHistory) -> Iterator[str]:
    """Return series that began tonight, and changes; the absence of a change is not listed."""
    entries = track.series.entries
    newest = entries[-1].outcome
    comparison = newest.comparison
    what = "" if newest.whole and comparison.metric == "real" else f", {comparison.metric} of {comparison.phase}"
    name = f"{comparison.arm}{units.at(comparison.point)}{what}"
    if len(entries) == 1 and track.series.began_with:
        yield f"{name}: a new series begins: {'; '.join(map(str, track.series.began_with))}"
    elif len(entries) == 1:
        yield f"{name}: the first session of its series"
    if track.changes:
        yield from (f"{name}: {line}" for line in change_lines(track))


def render_night_json(night: Night) -> str:
    """Return all data that the exit code rests on, for programs."""
    night = shown(night)
    document = {
        "schema": 1,
        "name": night.name,
        "started": night.started,
        "result": result(night),
        "exit_code": night.exit_code,
        "tasks": [_part_json(part) for part in night.parts],
    }
    return json.dumps(document, indent=1) + "\n"


def _part_json(part: Part) -> dict[str, Any]:
    return {
        "task": part.name,
        "session": part.session.id if part.session else None,
        "error": part.error or None,
        "seconds": part.seconds,
        "thresholds": [
            {
                "threshold": str(finding.threshold),
                "status": finding.status,
                "fails": finding.fails,
                "why": finding.why,
                "comparison": asdict(finding.comparison) if finding.comparison else None,
            }
            for finding in part.findings
        ],
        "comparisons": (
            [asdict(comparison) for comparison in whole_real(part.analysis.comparisons)] if part.analysis else []
        ),
        "histories": [
            {
                "arm": track.series.entries[-1].outcome.comparison.arm,
                "point": track.series.entries[-1].outcome.comparison.point,
                "sessions": [
                    {"session": entry.session, "ratio": entry.ratio, "low": entry.outcome.comparison.low,
                     "high": entry.outcome.comparison.high}
                    for entry in track.series.entries
                ],
                "began_with": [asdict(difference) for difference in track.series.began_with],
                "changes": [asdict(change) for change in track.changes],
            }
            for track in part.tracks
        ],
        "common_changes": [asdict(change) for change in part.common],
        "not_run": [asdict(blocked) for blocked in part.session.not_run] if part.session else [],
    }  # fmt: skip
