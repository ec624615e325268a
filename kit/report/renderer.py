"""Renderers: a line for each output, for command line, web and pytest. A new one is a file here and a line below.

Extras add theirs, of subjects of their own too: ``kit.extensions``."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass

from kit.extensions import EXTRAS

#: Subjects of renderers, each with the arguments of its renderers.
SESSION = "session"  # Session, Analysis
SESSIONS = "sessions"  # sequence of Session
PAGE = "page"  # its title, sequence of SessionView
BETWEEN = "two sessions"  # Session, Session, SessionDiff


@dataclass(frozen=True)
class Renderer:
    """One output. ``of``: its subject. ``maker``: the function that makes the text, imported on use, relative to
    kit.report; of an extra in full. ``what``: its description in help. ``suffix``: of its files, '' for terminal
    output. ``mime``: its type in a browser; a session's renderer with a type is also offered as a file beside the
    answer."""

    name: str
    of: str
    maker: str
    what: str
    suffix: str = ""
    mime: str = ""

    @property
    def file(self) -> str:
        """Return the name of the only file of its kind: ``junit.xml``."""
        return f"{self.name}.{self.suffix}"

    def render(self, *given: object) -> str:
        """Return the text. ``given``: the arguments listed at its subject."""
        maker = self.maker if self.maker.startswith("kit.") else f"kit.report.{self.maker}"
        text: str = pkgutil.resolve_name(maker)(*given)
        return text


#: The core's. The default of each subject first.
RENDERERS = (
    Renderer("answer", SESSION, "text.answer:render_answer", "the answer, and what supports it"),
    Renderer("full", SESSION, "text.table:render_text", "every phase, ladder, note and fact"),
    Renderer("explain", SESSION, "text.explain:render_explain", "in plain sentences"),
    Renderer("calls", SESSION, "text.calls:render_calls", "what each system call costs, from traced runs"),
    Renderer("profile", SESSION, "text.profile:render_profile", "what each function costs, from traced runs"),
    Renderer("markdown", SESSION, "text.table:render_markdown", "the table as Markdown", "md", "text/markdown"),
    Renderer("json", SESSION, "data.structured:render_json", "everything as JSON", "json", "application/json"),
    Renderer("csv", SESSION, "data.structured:render_csv", "the samples as CSV", "csv", "text/csv"),
    Renderer("html", PAGE, "page.html:render_html", "a page that needs no network", "html", "text/html"),
    Renderer("table", BETWEEN, "text.session_diff:render_between", "a table"),
    Renderer("markdown", BETWEEN, "text.session_diff:render_between_markdown", "a table as Markdown", "md"),
    Renderer("json", BETWEEN, "text.session_diff:render_between_json", "penalties and changes as JSON", "json"),
)  # fmt: skip


def renderers(of: str) -> tuple[Renderer, ...]:
    added = [extra.load(extra.renderers[of]) for extra in EXTRAS if of in extra.renderers]
    return (*(item for item in RENDERERS if item.of == of), *(item for items in added for item in items))


def names(of: str) -> list[str]:
    return [item.name for item in renderers(of)]


def find(of: str, name: str) -> Renderer:
    return next(item for item in renderers(of) if item.name == name)


def offered() -> tuple[Renderer, ...]:
    """Return the renderers of a session that are offered as a file beside the answer, or in a browser."""
    return tuple(item for item in renderers(SESSION) if item.mime)
