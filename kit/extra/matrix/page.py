"""The page of the matrix: the output of ``kit matrix``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from kit.core.errors import UsageError
from kit.extra.matrix.analysis.mean import parse_weights
from kit.extra.matrix.report.view import view_matrix
from kit.extra.matrix.stored import MatrixQuestion, find_matrix
from kit.report.format.sanitize import shown
from kit.report.page.store_page import PageContent, StorePage, address_of, slug
from kit.store import Store

#: The choices, by name in the query.
ASKED = ("class", "reference", "weight")


def show_matrix(store: Store, chosen: Mapping[str, str]) -> PageContent:
    """Return the page. Raises UsageError."""
    weights = [text.strip() for text in chosen["weight"].split(",") if text.strip()]
    question = MatrixQuestion(
        reference=chosen["reference"], machine_class=chosen["class"], weights=parse_weights(weights, "weight")
    )
    matrix = shown(find_matrix(store, question))
    form = {**chosen, "classes": sorted((matrix.machine_class, *matrix.classes))}
    values = {"title": "What each driver costs", "view": view_matrix(matrix), "form": form}
    return PageContent("matrix.html.j2", values)


def page_files(store: Store) -> Iterator[tuple[str, str]]:
    """Yield the pages, one for each of the classes of machines that have compared arms."""
    try:
        matrix = find_matrix(store, MatrixQuestion())
    except UsageError:
        return
    yield "/matrix", "matrix.html"
    yield address_of("/matrix", **{"class": matrix.machine_class}), f"matrix-{slug(matrix.machine_class)}.html"
    for name in matrix.classes:
        with suppress(UsageError):
            find_matrix(store, MatrixQuestion(machine_class=name))
            yield address_of("/matrix", **{"class": name}), f"matrix-{slug(name)}.html"


PAGES = (StorePage("/matrix", "Which driver", ASKED, show_matrix, page_files),)
