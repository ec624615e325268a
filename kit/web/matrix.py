"""The page of the matrix: the output of ``kit matrix``."""

from __future__ import annotations

from collections.abc import Mapping

from kit.analysis.matrix.weights import parse_weights
from kit.report.format.sanitize import shown
from kit.report.matrix.view import view_matrix
from kit.store import Store
from kit.store.matrix import MatrixQuestion, find_matrix
from kit.web.served import served_page

#: The choices, by name in the query.
ASKED = ("class", "reference", "weight")


def show_matrix(store: Store, chosen: Mapping[str, str]) -> str:
    """Return the page. Raises UsageError."""
    weights = [text.strip() for text in chosen["weight"].split(",") if text.strip()]
    asked = MatrixQuestion(
        reference=chosen["reference"], machine_class=chosen["class"], weights=parse_weights(weights, "weight")
    )
    matrix = shown(find_matrix(store, asked))
    form = {**chosen, "classes": sorted((matrix.machine_class, *matrix.classes))}
    return served_page("matrix.html.j2", title="What each driver costs", view=view_matrix(matrix), form=form)
