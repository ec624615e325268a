"""The outputs of ``kit matrix``."""

from __future__ import annotations

from kit.report.renderer import Renderer

#: The subject; its argument is a Matrix.
MATRIX = "matrix"

#: The default first.
RENDERERS = (
    Renderer("table", MATRIX, "kit.extra.matrix.report.text:render_matrix", "tables, the answer first"),
    Renderer("markdown", MATRIX, "kit.extra.matrix.report.text:render_matrix_markdown", "a table as Markdown", "md"),
    Renderer("json", MATRIX, "kit.extra.matrix.report.data:render_matrix_json", "cells and means as JSON", "json"),
    Renderer("csv", MATRIX, "kit.extra.matrix.report.data:render_matrix_csv", "a line for each cell and mean", "csv"),
    Renderer("html", MATRIX, "kit.extra.matrix.report.page:render_matrix_html", "a page that needs no network", "html"),
)
