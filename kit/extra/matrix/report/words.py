"""The matrix in words: which driver to take, for whom it is wrong, what it costs, and how to read the table."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from kit.analysis.stats.estimate import EQUIVALENT, FASTER, INCONCLUSIVE, NOT_RUN, SLOWER, TOO_FEW, Interval
from kit.core.listing import listed
from kit.extra.fleet.report.cost import left_lines
from kit.extra.matrix.analysis.choice import WrongFor, is_driver_beside
from kit.extra.matrix.analysis.matrix import Matrix, counting
from kit.extra.matrix.analysis.mean import ArmMean
from kit.extra.matrix.analysis.row import MatrixRow
from kit.report.format import units
from kit.report.format.interval import percent_interval
from kit.report.text.ranking import measure_of

#: Scenarios, arms and classes that a line names at most.
_NAMED = 4
_DECIMALS = 1
#: What stands beside the figure of a cell, so that colour is not all.
MARKS = {SLOWER: "▲", FASTER: "▼", EQUIVALENT: "=", INCONCLUSIVE: "?"}


def headline(matrix: Matrix) -> str:
    """Return which driver to take, for whom it is wrong, and what it costs."""
    return " ".join(_sentences(matrix))


def _sentences(matrix: Matrix) -> Iterator[str]:
    choice, reference = matrix.choice, matrix.mean(matrix.reference)
    if not reference.of:
        yield "No scenario has an interval: run more rounds."
        return
    over = _over(counting(matrix.rows))
    if not choice.take:
        yield from _without_choice(matrix, over)
        return
    mean = matrix.mean(choice.take)
    if choice.take == matrix.reference:
        yield f"Use {choice.take}: no other driver is significantly faster over {over}."
    else:
        yield f"Use {choice.take}: {_change(mean)} vs {matrix.reference} over {over}."
    if choice.wrong:
        yield f"It is wrong for {listed([_wrong(wrong) for wrong in choice.wrong], _NAMED, '; ')}."
    elif choice.take == matrix.reference:
        yield "No scenario shows another driver to be significantly faster."
    else:
        yield f"In no scenario is it significantly slower than {matrix.reference}."
    yield from _undecided(matrix)
    yield from _cost(mean)


def _undecided(matrix: Matrix) -> Iterator[str]:
    """Say which drivers may be faster than the reference although that is the choice."""
    if matrix.choice.take != matrix.reference:
        return
    ratios = [(arm, matrix.mean(arm).ratio) for arm in matrix.choice.inconclusive]
    lows = [(arm, ratio.together.low) for arm, ratio in ratios if ratio and ratio.together.low is not None]
    if faster := [f"{arm} (by up to {units.share(1 - low, _DECIMALS)})" for arm, low in lows if low < 1]:
        yield f"Inconclusive: {listed(faster, _NAMED)} may be faster; more rounds would decide."


def change(ratio: Interval | None) -> str:
    """Return a ratio as a change with one decimal at most: space hardly varies, and a choice needs no more digits."""
    return percent_interval(ratio, _DECIMALS)


def _change(mean: ArmMean) -> str:
    return change(mean.ratio and mean.ratio.together)


def _without_choice(matrix: Matrix, over: str) -> Iterator[str]:
    """Say what was measured where no other driver has all scenarios."""
    reference, rows = matrix.mean(matrix.reference), counting(matrix.rows)
    complete = [f"{mean.arm} {_change(mean)}" for mean in matrix.means if mean.ratio and mean.complete]
    if complete:
        yield f"Vs {matrix.reference} over {over}: {listed(complete, _NAMED)}."
    partial = [mean for mean in matrix.means if mean.scenarios and not mean.complete
               and is_driver_beside(mean.arm, matrix.reference)]  # fmt: skip
    if partial:
        shares = listed([f"{mean.arm} in {mean.scenarios}" for mean in partial], _NAMED)
        yield f"No other driver than {matrix.reference} was measured in all {len(rows)} {_unit(rows)}: {shares}."
    elif not complete:
        yield f"No other driver than {matrix.reference} was measured in {over}."
    yield from _cost(reference, matrix.reference)
    if partial:
        yield _fix(partial[0].arm, rows)


def _fix(arm: str, rows: Sequence[MatrixRow]) -> str:
    """Return what makes the arm a candidate. A command ends the text, without a full stop."""
    lacking = dict.fromkeys(row.scenario for row in rows if not ((cell := row.cell(arm)) and cell.measured))
    if len(lacking) > _NAMED or len(lacking) == _scenarios(rows):
        return f"Measure {arm} in the others too."
    weights = " ".join(f"--weight {shlex.quote(f'{scenario}=0')}" for scenario in lacking)
    return f"Measure {arm} in the others too, or leave them out: {weights}"


def _unit(rows: Sequence[MatrixRow]) -> str:
    """Return what rows are: scenarios, or points where a scenario has several."""
    return "scenarios" if _scenarios(rows) == len(rows) else "points"


def _scenarios(rows: Sequence[MatrixRow]) -> int:
    return len({row.scenario for row in rows})


def _over(rows: Sequence[MatrixRow]) -> str:
    scenarios = _scenarios(rows)
    return f"these {scenarios} scenarios" if scenarios != 1 else "this scenario"


def _wrong(wrong: WrongFor) -> str:
    """Return ``git:short (layer:btrfs: -8 % [-11, -5])``."""
    ratio = change(wrong.cell.together)
    return f"{wrong.scenario}{units.at(wrong.point)} ({wrong.cell.arm}: {ratio})"


def _cost(mean: ArmMean, subject: str = "It") -> Iterator[str]:
    if bare := mean.bare:
        yield f"{subject} costs {change(bare)} over no container."


def notes(matrix: Matrix) -> list[str]:
    """Return how to read the table, and what it leaves out, a line each."""
    lines = [_legend(matrix)]
    choice = matrix.choice
    if choice.alike:
        margin = f"±{units.asked(matrix.margin)}"
        lines.append(f"equivalent to {matrix.reference} within {margin} in the mean: {', '.join(choice.alike)}")
    if len(choice.faster) > 1:
        others = listed(choice.faster[1:], _NAMED)
        lines.append(f"also significantly faster in the mean: {others}; to compare them: --reference {choice.take}")
    if choice.inconclusive:
        lines.append(f"inconclusive in the mean: {', '.join(choice.inconclusive)}")
    weighed = [f"{row.scenario}{units.at(row.point)} {row.weight:.3g}" for row in matrix.rows if row.weight != 1]
    if weighed:
        lines.append(f"weights other than 1: {listed(weighed, _NAMED)}")
    lines.append("means are geometric, of these scenarios on these machines and not of all builds")
    lines.append(
        "intervals of means are simultaneous for all arms, those of a cell for the arms of its session; bare, space "
        "and written have individual ones"
    )
    lines += _missing(matrix)
    alone = [f"{row.scenario}{units.at(row.point)}" for row in matrix.rows if row.weight and not row.counts]
    if alone and counting(matrix.rows):
        lines.append(f"no part of the means, since no arm but {matrix.reference} has an interval: "
                     f"{listed(alone, _NAMED)}")  # fmt: skip
    if matrix.without:
        lines.append(f"scenarios without {matrix.reference}: {listed(matrix.without, _NAMED)}")
    pooled = sorted({row.machines for row in matrix.rows if row.machines > 1})
    if pooled:
        count = f"{pooled[0]}" if len(pooled) == 1 else f"{pooled[0]} to {pooled[-1]}"
        lines.append(f"pooled over {count} machines of the class; a cell is the mean over machines")
    if matrix.classes:
        lines.append(f"other classes of machines: {listed(matrix.classes, _NAMED, '; ')}: --class NAME")
    lines += _older(matrix)
    lines += left_lines(matrix.left_out)
    return lines


def _legend(matrix: Matrix) -> str:
    within = {EQUIVALENT: f" within ±{units.asked(matrix.margin)}"}
    marks = ", ".join(f"{mark} {word}{within.get(word, '')}" for word, mark in MARKS.items())
    metrics = dict.fromkeys(row.metric for row in matrix.rows)
    what = ", ".join(measure_of(metric) for metric in metrics)
    return f"{what} vs {matrix.reference}, 95 % intervals; {marks}"


def _older(matrix: Matrix) -> Iterator[str]:
    """Name the cells that are not of the session of their row's reference."""
    older = []
    for row in matrix.rows:
        reference = row.cell(matrix.reference)
        for cell in row.cells if reference and reference.session else ():
            if cell.measured and reference and cell.session != reference.session:
                older.append(f"{cell.arm} of {row.scenario}{units.at(row.point)} ({cell.session})")
    if older:
        yield f"from older sessions of the same work and machine: {listed(older, _NAMED)}"


def _missing(matrix: Matrix) -> Iterator[str]:
    """Say which arms did not run, or on too few machines, with the first reason of each."""
    for verdict in (NOT_RUN, TOO_FEW):
        reasons: dict[str, str] = {}
        for row in matrix.rows:
            for cell in row.cells:
                if cell.reason and cell.verdict == verdict:
                    reasons.setdefault(cell.arm, f"{cell.reason}; fix: {cell.fix}" if cell.fix else cell.reason)
        if reasons:
            yield f"{verdict}: {listed([f'{arm} ({reason})' for arm, reason in reasons.items()], _NAMED, '; ')}"
    partial = [f"{mean.arm} ({mean.scenarios} of {mean.of})" for mean in matrix.means if 0 < mean.scenarios < mean.of]
    for name in ("space", "written"):
        ratios = [(mean, getattr(mean, name)) for mean in matrix.means if mean.complete]
        partial += [
            f"{name} of {mean.arm} ({ratio.n} of {mean.of})" for mean, ratio in ratios if ratio and ratio.n < mean.of
        ]
    if partial:
        unit = _unit(counting(matrix.rows))
        yield f"means of fewer {unit}, not to be compared with the others: {listed(partial, _NAMED)}"
