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
    """``figure`` and ``interval``: in short, without and with ``[`` … ``]``. ``verdict``: in words. ``kind``: the
    verdict as a name of style, with the shade of a difference. ``session``: where the figure is from."""

    figure: str
    interval: str = ""
    verdict: str = ""
    kind: str = ""
    session: str = ""
    note: str = ""

    @property
    def mark(self) -> str:
        return MARKS.get(self.verdict, "")


@dataclass(frozen=True)
class MatrixView:
    """``rows``: name and cells, one for each of ``arms``. ``means``: the same of what is over all scenarios."""

    headline: str
    machine_class: str
    arms: Sequence[str]
    rows: Sequence[tuple[str, Sequence[CellView]]]
    means: Sequence[tuple[str, Sequence[CellView]]]
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
        own = cell.seconds.estimate if cell.seconds else None
        figure = units.amount(own, described(row.metric).unit)
        return CellView(figure, verdict=REFERENCE, kind=REFERENCE, session=cell.session)
    if cell.verdict == TOO_FEW:
        return CellView(TOO_FEW, verdict=TOO_FEW, kind="not-measured", note=cell.reason)
    if cell.ratio is None or cell.verdict == NOT_RUN:
        return CellView(NOT_RUN, verdict=NOT_RUN, kind="not-run", session=cell.session, note=cell.reason)
    return _change(cell.ratio.estimate, cell.low_all, cell.high_all, cell.verdict, cell.session)


def _change(
    ratio: float, low: float | None, high: float | None, verdict: str = "", session: str = "", note: str = ""
) -> CellView:
    figure, bracket, rest = change(ratio, low, high).partition(" [")
    return CellView(figure, f"{bracket}{rest}".strip(), verdict, _kind(verdict, ratio), session, note)


def _kind(verdict: str, ratio: float) -> str:
    """Return ``slower2`` for 10 to 30 % slower; other verdicts have one shade."""
    name = verdict.replace(" ", "-")
    if verdict not in (SLOWER, FASTER):
        return name
    away = max(ratio, 1 / ratio) if ratio else _SHADES[-1]
    return f"{name}{1 + sum(away >= least for least in _SHADES)}"


def _means(matrix: Matrix) -> Iterator[tuple[str, Sequence[CellView]]]:
    yield "geometric mean", [_mean(item) for item in matrix.means]
    for name, found in (
        ("vs bare", [item.bare for item in matrix.means]),
        ("space", [item.space for item in matrix.means]),
        ("written", [item.written for item in matrix.means]),
    ):
        if any(found):
            yield name, [_beside(item, mean.of) for item, mean in zip(found, matrix.means, strict=True)]


def _mean(item: ArmMean) -> CellView:
    if item.verdict == REFERENCE:
        return CellView(REFERENCE, verdict=REFERENCE, kind=REFERENCE)
    if item.ratio is None:
        return CellView(units.NOTHING, kind="not-measured")
    note = "" if item.complete else f"{item.scenarios} of {item.of}"
    return _change(item.ratio.estimate, item.low_all, item.high_all, item.verdict, note=note)


def _beside(item: Interval | None, of: int) -> CellView:
    if item is None:
        return CellView(units.NOTHING)
    return _change(item.estimate, item.low, item.high, note="" if item.n == of else f"{item.n} of {of}")
