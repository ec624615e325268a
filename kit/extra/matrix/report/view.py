"""What every output of the matrix shows: its cells and means as texts, each with the kind of its verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kit.analysis.stats.estimate import FASTER, NOT_MEASURED, NOT_RUN, REFERENCE, SLOWER, TOO_FEW, Interval
from kit.extra.matrix.analysis.cell import MatrixCell
from kit.extra.matrix.analysis.matrix import Matrix
from kit.extra.matrix.analysis.mean import ArmMean
from kit.extra.matrix.analysis.row import MatrixRow
from kit.extra.matrix.report.words import MARKS, change, headline, notes
from kit.model.metric import described
from kit.report.format import units

#: From these ratios on a difference has the next darker shade.
_SHADES = (1.1, 1.3)


@dataclass(frozen=True)
class CellView:
    """A cell in words."""

    figure: str  # in short
    interval: str = ""  # in short, with its brackets
    verdict: str = ""  # in words
    kind: str = ""  # the verdict as a name of style, with the shade of a difference
    session: str = ""  # where the figure is from
    note: str = ""

    @property
    def mark(self) -> str:
        return MARKS.get(self.verdict, "")


@dataclass(frozen=True)
class MatrixView:
    """A matrix in words."""

    headline: str
    machine_class: str
    arms: Sequence[str]
    rows: Sequence[tuple[str, Sequence[CellView]]]  # name and cells, one for each of the arms
    means: Sequence[tuple[str, Sequence[CellView]]]  # the same of what is over all scenarios
    lines: Sequence[str]


def view_matrix(matrix: Matrix) -> MatrixView:
    rows = [
        (f"{row.scenario}{units.at(row.point)}", [_cell(row.cell(arm), row) for arm in matrix.arms])
        for row in matrix.rows
    ]
    return MatrixView(headline(matrix), matrix.machine_class, matrix.arms, rows, list(_means(matrix)), notes(matrix))


def _cell(cell: MatrixCell | None, row: MatrixRow) -> CellView:
    if cell is None:
        return CellView(units.NOTHING, verdict=NOT_MEASURED, kind="not-measured")
    if cell.verdict == REFERENCE:
        seconds = cell.seconds.estimate if cell.seconds else None
        figure = units.amount(seconds, described(row.metric).unit)
        return CellView(figure, verdict=REFERENCE, kind=REFERENCE, session=cell.session)
    if cell.verdict == TOO_FEW:
        return CellView(TOO_FEW, verdict=TOO_FEW, kind="not-measured", note=cell.reason)
    if cell.ratio is None or cell.verdict == NOT_RUN:
        return CellView(NOT_RUN, verdict=NOT_RUN, kind="not-run", session=cell.session, note=cell.reason)
    return _change(cell.together or cell.ratio, cell.verdict, cell.session)


def _change(ratio: Interval, verdict: str = "", session: str = "", note: str = "") -> CellView:
    figure, bracket, bounds = change(ratio).partition(" [")
    return CellView(figure, f"{bracket}{bounds}".strip(), verdict, _kind(verdict, ratio.estimate), session, note)


def _kind(verdict: str, ratio: float) -> str:
    """Return ``slower2`` for 10 to 30 % slower; other verdicts have one shade."""
    name = verdict.replace(" ", "-")
    if verdict not in (SLOWER, FASTER):
        return name
    away = max(ratio, 1 / ratio) if ratio else _SHADES[-1]
    return f"{name}{1 + sum(away >= least for least in _SHADES)}"


def _means(matrix: Matrix) -> Iterator[tuple[str, Sequence[CellView]]]:
    yield "geometric mean", [_mean(mean) for mean in matrix.means]
    for name, ratios in (
        ("vs bare", [mean.bare for mean in matrix.means]),
        ("space", [mean.space for mean in matrix.means]),
        ("written", [mean.written for mean in matrix.means]),
    ):
        if any(ratios):
            yield name, [_beside(ratio, mean.of) for ratio, mean in zip(ratios, matrix.means, strict=True)]


def _mean(mean: ArmMean) -> CellView:
    if mean.verdict == REFERENCE:
        return CellView(REFERENCE, verdict=REFERENCE, kind=REFERENCE)
    if mean.ratio is None:
        return CellView(units.NOTHING, kind="not-measured")
    note = "" if mean.complete else f"{mean.scenarios} of {mean.of}"
    return _change(mean.ratio.together, mean.verdict, note=note)


def _beside(ratio: Interval | None, of: int) -> CellView:
    if ratio is None:
        return CellView(units.NOTHING)
    return _change(ratio, note="" if ratio.n == of else f"{ratio.n} of {of}")
