"""The outputs of ``kit history`` and ``kit nightly``."""

from __future__ import annotations

from kit.report.renderer import Renderer

#: Subjects, each with the arguments of its renderers.
HISTORY = "history"  # Subject, sequence of ChangeHistory
NIGHT = "night"  # Night

_REPORT = "kit.extra.history.report"

#: Of a history. The default first.
HISTORIES = (
    Renderer("table", HISTORY, f"{_REPORT}.history:render_history", "a table, intervals drawn"),
    Renderer("markdown", HISTORY, f"{_REPORT}.history:render_history_markdown", "a table as Markdown", "md"),
    Renderer("json", HISTORY, f"{_REPORT}.history:render_history_json", "series, changes and sessions as JSON", "json"),
    Renderer("csv", HISTORY, f"{_REPORT}.history:render_history_csv", "a line for each session", "csv"),
)
#: Of a night.
NIGHTS = (
    Renderer("terminal", NIGHT, f"{_REPORT}.night:render_night_text", "the summary for a terminal"),
    Renderer("junit", NIGHT, f"{_REPORT}.junit:render_junit", "for any CI to show", "xml"),
    Renderer("summary", NIGHT, f"{_REPORT}.night:render_summary", "the summary as Markdown", "md"),
    Renderer("report", NIGHT, f"{_REPORT}.page:render_night_html", "a page that needs no network", "html"),
    Renderer("nightly", NIGHT, f"{_REPORT}.night:render_night_json", "everything that decides the exit code", "json"),
)
