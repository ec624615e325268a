"""The matrix as a page that needs no network."""

from __future__ import annotations

from kit.extra.matrix.analysis.matrix import Matrix
from kit.extra.matrix.report.view import view_matrix
from kit.report.format.sanitize import shown
from kit.report.page.html import render_page


def render_matrix_html(matrix: Matrix) -> str:
    view = view_matrix(shown(matrix))
    return render_page("matrix.html.j2", title="What each driver costs", view=view, root=None, static=True, form=None)
