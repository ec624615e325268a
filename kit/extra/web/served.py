"""A page of ``kit serve`` or ``kit site``, with links relative to the server's path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kit.report.page.html import render_page

if TYPE_CHECKING:
    from flask import Flask

#: The application's setting.
STATIC = "KIT_STATIC"


def served_page(template: str, **values: Any) -> str:
    from flask import current_app, request

    return render_page(template, root=request.script_root, static=is_static(current_app), **values)


def is_static(app: Flask) -> bool:
    """Return whether the pages become files: forms and data of sessions have no server then."""
    return bool(app.config.get(STATIC))
