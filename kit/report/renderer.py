"""Renderers: every output, a line for each, of which the fronts ask. A new one is a file here and a line below."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass

#: What is rendered, and with it what a renderer is called with.
SESSION = "session"  # Session, Analysis
SESSIONS = "sessions"  # sequence of Session
PAGE = "page"  # its title, sequence of SessionView
BETWEEN = "two sessions"  # Session, Session, Between
HISTORY = "history"  # Subject, sequence of Track
NIGHT = "night"  # Night
FARM = "farm"  # FarmAnswer
PLAN = "plan"  # Planning


@dataclass(frozen=True)
class Renderer:
    """One output. ``of``: what it renders. ``maker``: the function that makes the text, imported on use. ``what``: the
    same for help texts. ``suffix``: of its files, '' for what is meant for a terminal. ``mime``: as what a browser gets
    it; a session's renderer that has one can be had as a file beside the answer."""

    name: str
    of: str
    maker: str
    what: str
    suffix: str = ""
    mime: str = ""

    @property
    def file(self) -> str:
        """The name of the only file of its kind: ``junit.xml``."""
        return f"{self.name}.{self.suffix}"

    def render(self, *given: object) -> str:
        """``given``: what the comment at its kind says."""
        text: str = pkgutil.resolve_name(self.maker)(*given)
        return text


#: Of each kind the usual one first.
RENDERERS = (
    Renderer("answer", SESSION, "kit.report.answer:render_answer", "what to take, and what that rests on"),
    Renderer("full", SESSION, "kit.report.table:render_text", "every phase, ladder, note and fact"),
    Renderer("explain", SESSION, "kit.report.explain:render_explain", "in plain sentences"),
    Renderer("calls", SESSION, "kit.report.calls:render_calls", "which system calls cost what, of traced runs"),
    Renderer("profile", SESSION, "kit.report.profile:render_profile", "which functions cost what, of traced runs"),
    Renderer("markdown", SESSION, "kit.report.table:render_markdown", "the table as Markdown", "md", "text/markdown"),
    Renderer("json", SESSION, "kit.report.structured:render_json", "everything as JSON", "json", "application/json"),
    Renderer("csv", SESSION, "kit.report.structured:render_csv", "the samples as CSV", "csv", "text/csv"),
    Renderer(
        "pytest-benchmark", SESSIONS, "kit.report.pytest_benchmark:render_pytest_benchmark",
        "real times, for that tool", "json",
    ),
    Renderer("html", PAGE, "kit.report.html:render_html", "a page that needs no network", "html", "text/html"),
    Renderer("table", BETWEEN, "kit.report.between:render_between", "a table"),
    Renderer("markdown", BETWEEN, "kit.report.between:render_between_markdown", "a table as Markdown", "md"),
    Renderer("table", HISTORY, "kit.report.history:render_history", "a table, intervals drawn"),
    Renderer("markdown", HISTORY, "kit.report.history:render_history_markdown", "a table as Markdown", "md"),
    Renderer("json", HISTORY, "kit.report.history:render_history_json", "series, changes and sessions as JSON", "json"),
    Renderer("csv", HISTORY, "kit.report.history:render_history_csv", "a line for each session", "csv"),
    Renderer("terminal", NIGHT, "kit.report.night:render_night_text", "the summary for a terminal"),
    Renderer("junit", NIGHT, "kit.report.junit:render_junit", "for any CI to show", "xml"),
    Renderer("summary", NIGHT, "kit.report.night:render_summary", "the summary as Markdown", "md"),
    Renderer("report", NIGHT, "kit.report.html:render_night_html", "a page that needs no network", "html"),
    Renderer("nightly", NIGHT, "kit.report.night:render_night_json", "all that the exit code rests on", "json"),
    Renderer("table", FARM, "kit.report.farm:render_farm", "a table, the answer first"),
    Renderer("markdown", FARM, "kit.report.farm:render_farm_markdown", "a table as Markdown", "md"),
    Renderer("json", FARM, "kit.report.farm:render_farm_json", "arms, classes and machines as JSON", "json"),
    Renderer("csv", FARM, "kit.report.farm:render_farm_csv", "a line for each arm, class and machine", "csv"),
    Renderer("table", PLAN, "kit.report.farm_plan:render_plan", "a table, the answer first"),
    Renderer("markdown", PLAN, "kit.report.farm_plan:render_plan_markdown", "a table as Markdown", "md"),
    Renderer("json", PLAN, "kit.report.farm_plan:render_plan_json", "plans and what they rest on as JSON", "json"),
)  # fmt: skip


def renderers(of: str) -> tuple[Renderer, ...]:
    return tuple(item for item in RENDERERS if item.of == of)


def names(of: str) -> list[str]:
    return [item.name for item in renderers(of)]


def find(of: str, name: str) -> Renderer:
    return next(item for item in renderers(of) if item.name == name)


def offered() -> tuple[Renderer, ...]:
    """Of a session what can be had as a file beside the answer, or from a browser."""
    return tuple(item for item in renderers(SESSION) if item.mime)
