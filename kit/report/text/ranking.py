"""The ranking in words: a table of all arms, a sentence for each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from kit.analysis.runs.compare import Comparison
from kit.analysis.session.difference import Difference
from kit.analysis.session.ranking import DURABLE, MORE_IS_BETTER, REAL, Ranking, RankRow
from kit.analysis.stats.estimate import EQUIVALENT, FASTER, INCONCLUSIVE, LESS, MORE, REFERENCE, SLOWER
from kit.model.arm import known_arm
from kit.model.metric import described
from kit.report.format import units
from kit.report.format.interval import percent_interval
from kit.report.format.table import render_table
from kit.report.text.advice import difference, is_time, margin, relation, size

_MEASURES = {DURABLE: "time until the data are on disk", REAL: "real time of the whole run"}


def caption(ranking: Ranking) -> str:
    """Return what the table shows, by which its columns are read."""
    what = f"{measure_of(ranking.metric)}{units.at(ranking.point)}"
    return "; ".join([what, *_qualities(ranking), "simultaneous 95 % intervals"])


def legend(ranking: Ranking) -> str:
    """Return the caption in sentences, for below the table."""
    qualities = "".join(f"; {text}" for text in _qualities(ranking))
    what = (
        f"Time is {measure_of(ranking.metric)}" if is_time(ranking) else f"The figures are {measure_of(ranking.metric)}"
    )
    has_intervals = any(pair.ratio.together.low is not None for pair in ranking.pairs)
    intervals = " Intervals are simultaneous, 95 %." if has_intervals else ""
    return f"{what.replace('is time', 'is', 1)}{qualities}.{intervals}"


def group_notes(rankings: Sequence[Ranking]) -> Iterator[str]:
    """Return what the letters say, where they differ."""
    if any(len({row.group for row in ranking.picks}) > 1 for ranking in rankings):
        yield "Arms in one group do not differ significantly."


def measure_of(metric: str) -> str:
    """Return what a metric measures, in words."""
    return _MEASURES.get(metric) or described(metric).title or metric


def _qualities(ranking: Ranking) -> Iterator[str]:
    if ranking.better == MORE_IS_BETTER:
        yield "more is better"
    if ranking.unpaired:
        yield "unpaired runs"
    if ranking.typical:
        yield "ratios are trimmed means"
    if ranking.covariate:
        yield f"adjusted for {ranking.covariate}"


def table(ranking: Ranking, width: int | None, tablefmt: str = "simple", most: int | None = None) -> str:
    """Return a row for each arm from the best to the worst.

    ``width``: columns of text; where that is too few, the table leaves out columns. ``most``: rows, without the worst
    arms."""
    headers = headings(ranking)
    listed = list(ranking.rows)
    while most is not None and len(listed) > most:  # what all are compared with stays
        listed.remove(next(row for row in reversed(listed) if row.against is not None))
    rows = cells(ranking, listed)
    empty = set[int]() if _over_bare(ranking) else {_BARE}
    for left_out in (set[int](), {_BARE}, {_BARE, _GROUP}, {_BARE, _GROUP, _VERDICT}):
        columns = [i for i in range(len(headers)) if i not in left_out | empty]
        text = render_table([[row[i] for i in columns] for row in rows], [headers[i] for i in columns], tablefmt)
        if width is None or max(map(len, text.splitlines())) <= width:
            break
    hidden = len(ranking.rows) - len(listed)
    return text + (f"\n{hidden} more arms, all worse: --full" if hidden else "")


#: Columns that a narrow table leaves out.
_GROUP, _BARE, _VERDICT = 0, 4, 5


def headings(ranking: Ranking) -> list[str]:
    return ["group", "arm", _unit(ranking), f"vs {ranking.reference}", "vs bare, same FS", "verdict"]


def cells(ranking: Ranking, rows: Sequence[RankRow]) -> list[list[str]]:
    """Return of each row a cell for each of the headings."""
    over = _over_bare(ranking)
    return [_cells(row, ranking, over) for row in rows]


def _unit(ranking: Ranking) -> str:
    if is_time(ranking):
        return "time"
    return f"{ranking.metric}, {ranking.unit}" if ranking.unit and ranking.unit != "s" else ranking.metric


def _over_bare(ranking: Ranking) -> dict[str, Comparison]:
    """Return what each arm costs over its own baseline, unless that has a column of its own."""
    return {comparison.arm: comparison for comparison in ranking.costs if comparison.baseline != ranking.reference}


def _cells(row: RankRow, ranking: Ranking, costs: dict[str, Comparison]) -> list[str]:
    value = units.seconds(row.typical) if ranking.unit == "s" else units.number(row.typical)
    against = REFERENCE if row.against is None else difference(row.against)
    over = costs.get(row.arm)
    cost = "baseline" if row.arm in {comparison.baseline for comparison in costs.values()} else units.NOTHING
    if over:
        cost = percent_interval(over.together)
    return [row.group or units.NOTHING, row.arm, value, against, cost, _verdict(row, ranking)]


def _verdict(row: RankRow, ranking: Ranking) -> str:
    if row.against is None:
        return REFERENCE
    if not row.pick:
        parsed = known_arm(row.arm)
        return "rebuild" if parsed and parsed.rebuild else "baseline"
    other = {} if is_time(ranking) else {SLOWER: "worse", FASTER: "better"}
    return other.get(row.verdict, row.verdict) or units.NOTHING


def sentences(ranking: Ranking) -> Iterator[str]:
    """Return one for each pick that is not the reference, and for each filesystem what it costs by itself."""
    for row in ranking.picks:
        if row.against is not None:
            yield f"{row.arm}: {_said(row.against, ranking)}"
    for pair in ranking.filesystems:
        yield f"{pair.arm} vs {pair.other}: {difference(pair)}: the cost of that filesystem alone"


def _said(pair: Difference, ranking: Ranking) -> str:
    if pair.ratio.together.low is None:
        once = "one run" if ranking.unpaired else "one round"
        return f"{units.percent(pair.ratio.estimate)} vs {pair.other} in {once}, without an interval"
    verdict = relation(ranking, pair.arm, pair.other)
    if verdict == EQUIVALENT:
        return f"equivalent to {pair.other} within {margin(ranking)}, {difference(pair)}"
    if verdict == INCONCLUSIVE:
        return f"inconclusive vs {pair.other}, {difference(pair)}"
    return f"{size(pair, ranking)} than {pair.other}, {difference(pair)}"


def result_line(comparisons: Sequence[Comparison]) -> str:
    """Return what a session found, in a line of a list: the largest significant cost, and how many others."""
    bounded = [
        comparison
        for comparison in comparisons
        if comparison.ratio and comparison.low_all is not None and comparison.high_all is not None
    ]
    clear = sorted(
        (comparison for comparison in bounded if comparison.verdict_all in (MORE, LESS)),
        key=lambda comparison: -abs(_log(comparison)),
    )
    if not clear:
        return f"{len(bounded)} comparison{'s' if len(bounded) != 1 else ''}, none significant" if bounded else ""
    first = clear[0]
    parts = [f"{units.against(first)} {percent_interval(first.together)}"]
    if len(clear) > 1:
        parts.append(f"{len(clear) - 1} more significant")
    if len(bounded) > len(clear):
        parts.append(f"{len(bounded) - len(clear)} not significant")
    return ", ".join(parts)


def _log(comparison: Comparison) -> float:
    return math.log(comparison.ratio) if comparison.ratio else 0.0
