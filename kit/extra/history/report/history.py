"""An arm's history: a line for each session with its interval drawn, and a line for each change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kit.analysis.session.entry import Entry, short
from kit.extra.history.analysis.changepoint import Change, ChangeHistory
from kit.extra.history.analysis.series import Series
from kit.model.fact import CI_COMMIT, COMMIT, LABEL, built_commit
from kit.report.format import units
from kit.report.format.interval import interval_of, percent_interval
from kit.report.format.sanitize import shown
from kit.report.format.table import GITHUB, render_sheet, render_table
from kit.report.format.verdict import Plot
from kit.report.format.wrap import wrap

#: Of a table, after the date.
_COMMIT_COLUMN = 3


@dataclass(frozen=True)
class Subject:
    """The subject of a history."""

    title: str
    arm: str
    baseline: str
    what: str  # ``real of build``


def render_history(subject: Subject, histories: Sequence[ChangeHistory], tablefmt: str = "simple") -> str:
    """Return every series, the oldest first, with a table of its sessions and the sentences about its changes."""
    subject, histories = shown(subject), shown(tuple(histories))
    count = sum(len(history.series.entries) for history in histories)
    several = f" in {len(histories)} series" if len(histories) > 1 else ""
    head = (
        f"{subject.title}: {subject.arm} / {subject.baseline}, {subject.what}: "
        f"{count} session{'s' if count > 1 else ''}{several}"
    )
    parts = [f"### {head}" if tablefmt == GITHUB else head]
    plot = Plot([entry.outcome.comparison for history in histories for entry in history.series.entries])
    for number, history in enumerate(histories, 1):
        if len(histories) > 1:
            parts.append(wrap(f"series {number} of {len(histories)}{_began(history.series)}"))
        parts.append(_table(history, plot, tablefmt))
        parts.append("\n".join(wrap(line) for line in change_lines(history)))
    return "\n\n".join(part for part in parts if part) + "\n"


def render_history_markdown(subject: Subject, histories: Sequence[ChangeHistory]) -> str:
    return render_history(subject, histories, GITHUB)


def _began(series: Series) -> str:
    return f", started because these changed: {'; '.join(map(str, series.began_with))}" if series.began_with else ""


def _table(history: ChangeHistory, plot: Plot, tablefmt: str) -> str:
    changes = {change.index: change for change in history.changes}
    drawn = tablefmt == "simple"
    commits = commits_of(history.series.entries)
    headers = ["", "session", "date, UTC", "arm", "baseline", "change, 95 %", *([plot.axis()] if drawn else [])]
    rows = [_row(entry, changes.get(i), plot, drawn) for i, entry in enumerate(history.series.entries)]
    if any(commits):
        headers.insert(_COMMIT_COLUMN, "commit")
        for row, commit in zip(rows, commits, strict=True):
            row.insert(_COMMIT_COLUMN, commit or units.NOTHING)
    return render_table(rows, headers, tablefmt)


def commits_of(entries: Sequence[Entry]) -> list[str]:
    """Return what each session built: the commit of its sources, else of its CI job; '' if it is unknown."""
    return [short(built_commit(entry.versions)) for entry in entries]


def _row(entry: Entry, change: Change | None, plot: Plot, drawn: bool) -> list[str]:
    comparison = entry.outcome.comparison
    mark = "" if change is None else (("▲" if change.up else "▼") if change.confirmed else "?")
    return [
        mark,
        entry.session,
        units.moment(entry.created),
        units.seconds(entry.outcome.mean),
        units.seconds(entry.outcome.base_mean),
        percent_interval(comparison.estimate),
        *([plot.draw(comparison)] if drawn else []),
    ]


def change_lines(history: ChangeHistory) -> list[str]:
    """Return a sentence for each change, or the reason for their absence."""
    entries = history.series.entries
    if not history.changes:
        sessions = f"{len(entries)} session{'s' if len(entries) > 1 else ''}"
        if history.missing:
            return [
                f"No change point yet in {sessions}: {history.missing} more can show one "
                f"({history.confirm} before it and {history.confirm} from it on)."
            ]
        return [f"No change point in {sessions}."]
    return [_change(change, entries, history.confirm) for change in history.changes]


def _change(change: Change, entries: Sequence[Entry], confirm: int) -> str:
    what = (
        "change point"
        if change.confirmed
        else f"possible change point ({confirm} sessions on each side would confirm it)"
    )
    moved = [
        f"{name} {interval_of(shift)}"
        for name, shift in (("the arm's own time", change.own), ("its baseline's", change.base))
        if shift is not None
    ]
    differs = "; ".join(map(str, change.differs)) or "no recorded fact: look for causes that no fact records"
    return (
        f"{what} at {entries[change.index].session}: {units.percent(change.before)} before, "
        f"{units.percent(change.after)} in the {change.sessions} session{'s' if change.sessions > 1 else ''} after: "
        f"{interval_of(change.shift)}, {units.chance(change.p)}; {', '.join(moved)}; changed there: {differs}"
    )


def history_rows(number: int, history: ChangeHistory) -> Iterator[dict[str, Any]]:
    """Return one flat row for each session of a series; ``number``: of this series among several."""
    marks = {change.index: change for change in history.changes}
    for i, entry in enumerate(history.series.entries):
        comparison = entry.outcome.comparison
        yield {
            "series": number,
            "session": entry.session,
            "created": entry.created,
            "machine": entry.machine,
            "kit": entry.kit_version,
            "source_commit": COMMIT.text(entry.versions),
            "ci_commit": CI_COMMIT.text(entry.versions),
            "labels": {label.of: label.text for label in LABEL.find(entry.versions)},
            "arm": comparison.arm,
            "baseline": comparison.baseline,
            "point": comparison.point,
            "phase": comparison.phase,
            "metric": comparison.metric,
            "mean": entry.outcome.mean,
            "baseline_mean": entry.outcome.base_mean,
            "ratio": comparison.ratio,
            "low": comparison.low,
            "high": comparison.high,
            "n": comparison.n,
            "change_point": i in marks and marks[i].confirmed,
        }


def render_history_json(subject: Subject, histories: Sequence[ChangeHistory]) -> str:
    return render_histories_json([(subject, histories)])


def render_histories_json(histories: Sequence[tuple[Subject, Sequence[ChangeHistory]]]) -> str:
    """Return one document of an arm's histories, of each point of a sweep."""
    return json.dumps({"schema": 1, "histories": [_history(*history) for history in histories]}, indent=1) + "\n"


def _history(subject: Subject, histories: Sequence[ChangeHistory]) -> dict[str, Any]:
    subject, histories = shown(subject), shown(tuple(histories))
    return {
        "subject": asdict(subject),
        "series": [
            {
                "began_with": [asdict(difference) for difference in history.series.began_with],
                "changes": [asdict(change) for change in history.changes],
                "sessions": list(history_rows(number, history)),
            }
            for number, history in enumerate(histories, 1)
        ],
    }


def render_history_csv(subject: Subject, histories: Sequence[ChangeHistory]) -> str:
    """Return CSV whose rows each name their subject."""
    rows = [row for number, history in enumerate(shown(tuple(histories)), 1) for row in history_rows(number, history)]
    rows = [{**row, "labels": ", ".join(f"{key}={text}" for key, text in row["labels"].items())} for row in rows]
    return render_sheet(list(rows[0]) if rows else [], rows)
