"""A page of ``kit serve``, with links relative to the server's path."""

from __future__ import annotations

from typing import Any

from kit.report.page.html import render_page


def served_page(template: str, **values: Any) -> str:
    from flask import request

    return render_page(template, root=request.script_root, **values)
