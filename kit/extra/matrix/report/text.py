"""The matrix for a terminal, in as many tables as its columns need, and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.extra.matrix.analysis.matrix import Matrix
from kit.extra.matrix.report.view import CellView, view_matrix
from kit.report.format.sanitize import shown
from kit.report.format.table import GITHUB, render_table
from kit.report.format.wrap import screen, wrap

_GAP = 2  # columns between two of tabulate's


@dataclass(frozen=True)
class _Grid:
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]

    @property
    def turned(self) -> _Grid:
        names = [name for name, _ in self.rows]
        return _Grid(
            [_broken(name) for name in names],
            [(_joined(head), [cells[i] for _, cells in self.rows]) for i, head in enumerate(self.heads)],
        )

    def parts(self, width: int) -> list[_Grid]:
        """Return the grid in parts that fit the width, a column each at least."""
        first = max((_width(name) for name, _ in self.rows), default=0)
        sizes = [max(_width(text) for text in (head, *(cells[i] for _, cells in self.rows)))
                 for i, head in enumerate(self.heads)]  # fmt: skip
        groups: list[list[int]] = []
        room = 0
        for i, size in enumerate(sizes):
            if not groups or size + _GAP > room:
                groups.append([])
                room = width - first
            groups[-1].append(i)
            room -= size + _GAP
        return [
            _Grid([self.heads[i] for i in group], [(name, [cells[i] for i in group]) for name, cells in self.rows])
            for group in groups
        ]

    def render(self, tablefmt: str = "simple") -> str:
        return render_table([[name, *cells] for name, cells in self.rows], ["", *self.heads], tablefmt)


def _width(text: str) -> int:
    return max(map(len, text.split("\n")))


def _broken(name: str) -> str:
    """Return ``layer:overlay2`` in two lines, as the heading of a narrow column."""
    return name.replace(":", ":\n", 1)


def _joined(head: str) -> str:
    return head.replace(":\n", ":", 1)


def render_matrix(matrix: Matrix) -> str:
    """Return the sentence, the tables and how to read them. Rows are scenarios, or arms where that needs fewer
    tables, or fewer lines."""
    view, width = view_matrix(shown(matrix)), screen()
    every = [*view.rows, *view.means]
    grid = _Grid([_broken(arm) for arm in view.arms], [(name, [_short(cell) for cell in row]) for name, row in every])
    parts = min((grid.parts(width), grid.turned.parts(width)), key=lambda grids: (len(grids), _lines(grids)))
    tables = [part.render() for part in parts]
    lines = [wrap(line, width) for line in view.lines]
    return "\n\n".join([wrap(view.headline, width), wrap(view.machine_class, width), *tables, "\n".join(lines)]) + "\n"


def _lines(parts: Sequence[_Grid]) -> int:
    return sum(part.render().count("\n") for part in parts)


def _short(cell: CellView) -> str:
    """Return a cell of two lines or three: figure and mark, interval, note of a mean."""
    note = cell.note if cell.interval else ""
    return "\n".join(filter(None, (f"{cell.figure} {cell.mark}".rstrip(), cell.interval, note)))


def render_matrix_markdown(matrix: Matrix) -> str:
    view = view_matrix(shown(matrix))
    grid = _Grid(view.arms, [(name, [_long(cell) for cell in row]) for name, row in [*view.rows, *view.means]])
    lines = "\n".join(f"- {line}" for line in view.lines)
    return "\n\n".join([f"**{view.headline}**", view.machine_class, grid.render(GITHUB), lines]) + "\n"


def _long(cell: CellView) -> str:
    """Return ``+5.6 % [+3.1, +8.2] ▲ slower``."""
    verdict = "" if cell.figure in (cell.verdict, "–") else f"{cell.mark} {cell.verdict}".strip()
    note = f"({cell.note})" if cell.note else ""
    return " ".join(filter(None, (cell.figure, cell.interval, verdict, note)))
