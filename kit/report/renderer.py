"""Renderers: a line for each output, for command line, web and pytest. A new one is a file here and a line below.

Extras add theirs, of subjects of their own too: ``kit.extensions``."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.extensions import EXTRAS, merged

if TYPE_CHECKING:
    from kit.analysis.session.analyse import Analysis
    from kit.model.session import Session

#: Subjects of renderers, each with the arguments of its renderers.
SESSION = "session"  # Session, Analysis
SESSIONS = "sessions"  # sequence of Session
PAGE = "page"  # its title, sequence of SessionView
BETWEEN = "two sessions"  # Session, Session, SessionDiff
FLEET = "fleet"  # FleetAnswer


@dataclass(frozen=True)
class Renderer:
    """One output."""

    name: str
    of: str  # its subject
    #: The function that makes the text, imported on use, relative to kit.report; of an extra in full.
    maker: str
    what: str  # its description in help
    suffix: str = ""  # of its files; '' for terminal output
    #: Its type in a browser; a session's renderer with a type is also offered as a file beside the answer.
    mime: str = ""
    after: str = ""  # of an extra's: the renderer that is listed before it
    flag: bool = False  # whether kit show has --NAME for it, which the answer names
    suits: Callable[[Session, Analysis], bool] | None = None  # whether there is something to show

    @property
    def file(self) -> str:
        """Return the name of the only file of its kind: ``junit.xml``."""
        return f"{self.name}.{self.suffix}"

    def render(self, *arguments: object) -> str:
        """Return the text. ``arguments``: those listed at its subject."""
        maker = self.maker if self.maker.startswith("kit.") else f"kit.report.{self.maker}"
        text: str = pkgutil.resolve_name(maker)(*arguments)
        return text


#: The core's. The default of each subject first.
RENDERERS = (
    Renderer("answer", SESSION, "text.answer:render_answer", "the answer, and what supports it"),
    Renderer("full", SESSION, "text.table:render_text", "every phase, ladder, note and fact", flag=True),
    Renderer("explain", SESSION, "text.explain:render_explain", "in plain sentences", flag=True),
    Renderer("markdown", SESSION, "text.table:render_markdown", "the table as Markdown", "md", "text/markdown"),
    Renderer("json", SESSION, "data.structured:render_json", "everything as JSON", "json", "application/json"),
    Renderer("csv", SESSION, "data.structured:render_csv", "the samples as CSV", "csv", "text/csv"),
    Renderer("html", PAGE, "page.html:render_html", "a page that needs no network", "html", "text/html"),
    Renderer("table", BETWEEN, "text.session_diff:render_between", "a table"),
    Renderer("markdown", BETWEEN, "text.session_diff:render_between_markdown", "a table as Markdown", "md"),
    Renderer("json", BETWEEN, "text.session_diff:render_between_json", "penalties and changes as JSON", "json"),
    Renderer("table", FLEET, "fleet.cost:render_fleet_cost", "a table, the answer first"),
    Renderer("markdown", FLEET, "fleet.cost:render_fleet_cost_markdown", "a table as Markdown", "md"),
    Renderer("json", FLEET, "fleet.cost:render_fleet_cost_json", "arms, classes and machines as JSON", "json"),
    Renderer("csv", FLEET, "fleet.cost:render_fleet_cost_csv", "a line for each arm, class and machine", "csv"),
)  # fmt: skip


def renderers(of: str) -> tuple[Renderer, ...]:
    core = {renderer.name: renderer for renderer in RENDERERS if renderer.of == of}
    added = (renderer for extra in EXTRAS if of in extra.renderers for renderer in extra.load(extra.renderers[of]))
    return tuple(merged(core, ((renderer.after, renderer.name, renderer) for renderer in added)).values())


def names(of: str) -> list[str]:
    return [renderer.name for renderer in renderers(of)]


def find(of: str, name: str) -> Renderer:
    return next(renderer for renderer in renderers(of) if renderer.name == name)


def offered() -> tuple[Renderer, ...]:
    """Return the renderers of a session that are offered as a file beside the answer, or in a browser."""
    return tuple(renderer for renderer in renderers(SESSION) if renderer.mime)


def flags() -> tuple[Renderer, ...]:
    """Return the renderers of a session that ``kit show`` has an option for."""
    return tuple(renderer for renderer in renderers(SESSION) if renderer.flag)
