"""Pages: one self-contained file each, with all style, script and data inside, so that it is read without a network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from kit import __version__
from kit.report.page import SessionView


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("kit.report", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    loader = environment.loader
    assert loader is not None
    source = {name: loader.get_source(environment, f"page.{name}")[0] for name in ("css", "js")}
    environment.globals.update(version=__version__, **source)
    return environment


def render_page(template: str, **values: Any) -> str:
    """A template of this package with values. What is not markup already is escaped."""
    return _environment().get_template(template).render(**values)


def render_html(title: str, views: Sequence[SessionView], head: Sequence[str] = ()) -> str:
    """The report of one or more sessions. ``head``: sentences that come before everything else."""
    return render_page("report.html.j2", title=title, views=views, head=head)
