"""Pages: one self-contained file each, with all style, script and data inside, for use without a network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined
from markupsafe import Markup

import kit
from kit import __version__
from kit.core.sanitize import printable
from kit.extensions import EXTRAS
from kit.report.page.filters import FILTERS
from kit.report.page.page import SessionView
from kit.report.page.section import page_sections


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("kit.report", "templates"), FileSystemLoader(_of_extras())]),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_shown,
    )  # fmt: skip
    loader = environment.loader
    assert loader is not None
    sections = page_sections()
    scripts = (section.script for section in sections if section.script)
    css, *code = (loader.get_source(environment, name)[0] for name in ("page.css", "page.js", *scripts))
    source = {"css": css, "js": "\n".join(code)}
    environment.filters.update(FILTERS)
    environment.globals.update(version=__version__, policy=_policy(**source), page_sections=sections, **source)
    return environment


def _of_extras() -> list[Path]:
    """Return where extras may have templates of their own."""
    return [Path(kit.__file__).parent / "extra" / extra.name / "templates" for extra in EXTRAS]


def _shown(value: Any) -> Any:
    """Sanitize an expression of a template before it is escaped."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _policy(css: str, js: str) -> str:
    """Return what a browser may do with a page: run our script alone, identified by digest; contact no other server."""
    style, script = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, js))
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; img-src data:; "
        "form-action 'self'; base-uri 'none'"
    )


def content_policy() -> str:
    """Return the policy of every page as a header, where it also forbids others to frame the page."""
    return f"{_environment().globals['policy']}; frame-ancestors 'none'"


def render_page(template: str, **values: Any) -> str:
    """Return a template of this package, or of an extra, with values. All but markup is escaped."""
    return _environment().get_template(template).render(**values)


def render_html(title: str, views: Sequence[SessionView], head: Sequence[str] = ()) -> str:
    """Return the report of one or more sessions. ``head``: sentences at the top."""
    return render_page("report.html.j2", title=title, views=views, head=head)
