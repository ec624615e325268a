"""The ranking in words: which arm to take, a table of all that could be taken, a sentence for each."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from tabulate import tabulate

from kit.analysis.compare import LESS, MORE, Comparison
from kit.analysis.ranking import Difference, Ranking, RankRow
from kit.model.metric import described
from kit.report import units

Index = dict[tuple[str, str], Comparison]  # by arm and point


def headline(ranking: Ranking, set_aside: Collection[str] = ()) -> str:
    """Which arm to take, in one sentence: those that may be the best, and what the others cost against them.

    ``set_aside``: arms whose figure is not to be taken for what they cost in use."""
    picks = [row for row in ranking.picks if row.arm not in set_aside] or list(ranking.picks)
    if len(picks) == 1:
        return _only(ranking, picks[0])
    names = {row.arm for row in picks}
    best = [row.arm for row in picks if not ranking.better_than(row.arm) & names]
    if len(best) == len(picks):
        return f"no difference told between {_join(best)}: {_bounds(ranking, best)}"
    take = f"take {_join(best, 'or')}"
    if len(best) > 1:
        take += ": no difference told between them"
    told = [row for row in picks if row.against and row.against.told and row.arm not in best[1:]]
    away = [f"{row.arm} {difference(row.against)}" for row in told if row.against]
    if away:
        take += f"; against {ranking.reference}: {', '.join(away)}"
    rest = [row for row in picks if row.arm not in best and row not in told and row.against]
    worse = [f"{row.arm} is worse than {_join(sorted(ranking.better_than(row.arm) & names))}" for row in rest]
    return "; ".join([take, *worse])


def _only(ranking: Ranking, row: RankRow) -> str:
    other = next((item for item in ranking.rows if not item.pick and item.against), None)
    pair = next((item for item in ranking.pairs if other and (item.arm, item.other) == (row.arm, other.arm)), None)
    if pair is None:
        return f"{row.arm}: nothing that it could be compared with"
    what = f"{row.arm} against {pair.other}: {difference(pair)}"
    return what if pair.told or pair.low_all is None else f"{what}, no difference told"


def _bounds(ranking: Ranking, arms: Collection[str]) -> str:
    """How large a difference to the reference may be that was not told."""
    ends = [row.against for row in ranking.picks if row.against and row.arm in arms]
    if not ends:
        return f"{ranking.reference} shares no round with another"
    if any(item.low_all is None or item.high_all is None for item in ends):
        return "one round has no interval"
    low = min(item.low_all or 0.0 for item in ends)
    high = max(item.high_all or 0.0 for item in ends)
    return f"against {ranking.reference} any lies between {units.percent(low)} and {units.percent(high)}"


def _join(names: Sequence[str], word: str = "and") -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"


def change(ratio: float | None, low: float | None, high: float | None) -> str:
    """``+4.2 % (-3.9 … +13.0)``: an estimate with its interval, in percent."""
    if ratio is None:
        return "no ratio"
    if low is None or high is None:
        return f"{units.percent(ratio)} (no interval)"
    ends = (units.percent(end).removesuffix(" %") for end in (low, high))
    return f"{units.percent(ratio)} ({' … '.join(ends)})"


def caption(ranking: Ranking) -> str:
    """What the table shows, by which its columns are read."""
    what = described(ranking.metric).title or ranking.metric
    better = "; more is better" if ranking.better == "more" else ""
    typical = ", typical rounds" if ranking.typical else ""
    adjusted = f", adjusted for {ranking.covariate}" if ranking.covariate else ""
    return f"{what}{units.at(ranking.point)}{better}{typical}{adjusted}; 95 % for all of a column at once"


def table(
    ranking: Ranking,
    comparisons: Sequence[Comparison],
    width: int | None,
    tablefmt: str = "simple",
    most: int | None = None,
) -> str:
    """A row for each arm from the best to the worst, ``most`` of them; as many columns as ``width`` takes, the last
    ones left out first.

    ``rank``: the ranks that it may have. Arms that share a letter of ``alike`` can't be told apart."""
    headers = headings(ranking)
    listed = list(ranking.rows)
    while most is not None and len(listed) > most:  # from the worst on; what all are compared with stays
        listed.remove(next(row for row in reversed(listed) if row.against is not None))
    rows = cells(ranking, comparisons, listed)
    for left_out in ((), (5,), (4, 5), (0, 4, 5)) if any(row[4] for row in rows) else ((4,), (4, 5), (0, 4, 5)):
        shown = [i for i in range(len(headers)) if i not in left_out]
        made = tabulate(
            [[row[i] for i in shown] for row in rows],
            [headers[i] for i in shown],
            tablefmt=tablefmt,
            disable_numparse=True,
        )
        if width is None or max(map(len, made.splitlines())) <= width:
            break
    hidden = len(ranking.rows) - len(listed)
    return made + (f"\n{hidden} more arms, slower or worse: --full" if hidden else "")


def headings(ranking: Ranking) -> list[str]:
    return ["rank", "arm", _unit(ranking), f"against {ranking.reference}", "over bare, same FS", "alike"]


def cells(ranking: Ranking, comparisons: Sequence[Comparison], rows: Sequence[RankRow]) -> list[list[str]]:
    """Of each row a cell for each of the headings. ``comparisons``: the session's."""
    index = _over_bare(ranking, comparisons)
    return [_cells(row, ranking, index) for row in rows]


def _unit(ranking: Ranking) -> str:
    return "time" if ranking.unit == "s" else f"{ranking.metric}, {ranking.unit}" if ranking.unit else ranking.metric


def _over_bare(ranking: Ranking, comparisons: Sequence[Comparison]) -> Index:
    """What the session's comparisons say of the same metric: each arm over its own baseline."""
    return {
        (item.arm, item.point): item
        for item in comparisons
        if (item.metric, item.phase, item.point) == (ranking.metric, ranking.phase, ranking.point)
        and item.baseline.startswith(("bare", "host"))
        and not item.control
    }


def _cells(row: RankRow, ranking: Ranking, index: Index) -> list[str]:
    value = units.seconds(row.typical) if ranking.unit == "s" else f"{row.typical:.4g}"
    against = "reference" if row.against is None else difference(row.against)
    ranks = _ranks(row) if row.pick else units.NOTHING
    over = index.get((row.arm, ranking.point))
    cost = change(over.ratio, over.low_all, over.high_all) if over else ""
    return [ranks, row.arm, value, against, cost, row.group]


def _ranks(row: RankRow) -> str:
    return str(row.rank_low) if row.rank_low == row.rank_high else f"{row.rank_low}–{row.rank_high}"


def difference(item: Difference) -> str:
    return change(item.ratio, item.low_all, item.high_all)


def sentences(ranking: Ranking) -> Iterator[str]:
    """One for each pick that is not the reference, and for each filesystem what it costs by itself."""
    for row in ranking.picks:
        if row.against is not None:
            yield f"{row.arm}: {_said(row.against, ranking)}"
    for item in ranking.filesystems:
        yield f"{item.arm} against {item.other}: {difference(item)}: what that filesystem alone costs"


def _said(item: Difference, ranking: Ranking) -> str:
    if item.low_all is None or item.high_all is None:
        return f"{units.percent(item.ratio)} against {item.other} in one round, which says nothing yet"
    if not item.told:
        return (
            f"not told apart from {item.other}: costs {_size(item.high_all)} more at most, "
            f"saves {_size(item.low_all)} at most"
        )
    less, more = ("less", "more") if ranking.better == "more" else ("faster", "slower")
    if ranking.unit != "s" and ranking.better != "more":
        less, more = "less", "more"
    word = more if item.ratio > 1 else less
    least, most = sorted((item.low_all, item.high_all), key=lambda end: abs(math.log(end)) if end > 0 else math.inf)
    return f"{_size(item.ratio)} {word} than {item.other}, {_size(least)} at least and {_size(most)} at most"


def _size(ratio: float) -> str:
    return units.percent(ratio).lstrip("+-")


def result_line(found: Sequence[Comparison]) -> str:
    """What a session found, in a line of a list: the largest cost that is told from its baseline, how many are not."""
    known = [item for item in found if item.ratio and item.low_all is not None and item.high_all is not None]
    told = sorted((item for item in known if item.verdict_all in (MORE, LESS)), key=lambda item: -abs(_log(item)))
    quiet = len(known) - len(told)
    parts = [f"{units.against(item)} {change(item.ratio, item.low_all, item.high_all)}" for item in told[:1]]
    if len(told) > 1:
        parts.append(f"{len(told) - 1} more told from their baselines")
    if quiet:
        parts.append(f"{quiet} not")
    return ", ".join(parts) if told else f"none of {quiet} told from its baseline" if quiet else ""


def _log(item: Comparison) -> float:
    return math.log(item.ratio) if item.ratio else 0.0
