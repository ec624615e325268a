"""The ranking in words: which arm to use, a table of all arms, a sentence for each."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tabulate import tabulate

from kit.analysis.compare import LESS, MORE, Comparison
from kit.analysis.ranking import (
    EQUIVALENT,
    FASTER,
    INCONCLUSIVE,
    MORE_IS_BETTER,
    REAL,
    SLOWER,
    WHOLE,
    Difference,
    Ranking,
    RankRow,
)
from kit.model.metric import described
from kit.report import units
from kit.report.interval import percent_interval

Index = dict[tuple[str, str], Comparison]  # by arm and point

#: A pair of picks: the first is significantly better, or worse.
_BETTER, _WORSE = "better", "worse"
#: Arms that a line names at most.
_NAMED = 4
#: From this ratio on a difference reads better as ``2.4 times slower`` than in percent.
_TIMES = 2.0
#: A ratio of which a sentence says nothing: two rounds that differ much leave almost any.
_UNBOUNDED = 11.0
_MEASURES = {WHOLE: "time until the data are on disk", REAL: "real time of the whole run"}


@dataclass(frozen=True)
class _Choice:
    """``best``: the picks that no other one beats, the one that the others are compared with first. ``same``: those of
    them that are equivalent to it, itself first. ``beaten``: the other picks."""

    best: Sequence[RankRow]
    same: Sequence[RankRow]
    beaten: Sequence[RankRow]


def headline(ranking: Ranking, set_aside: Collection[str] = ()) -> str:
    """Return ``advice`` in one line."""
    return " ".join(advice(ranking, set_aside))


def advice(ranking: Ranking, set_aside: Collection[str] = ()) -> list[str]:
    """Return which arms to use and which to avoid, a line each.

    ``set_aside``: arms whose figure is not what they cost in use."""
    picks = [row for row in ranking.picks if row.arm not in set_aside] or list(ranking.picks)
    if len(picks) == 1:
        return [_only(ranking, picks[0])]
    if not any(pair.low_all is not None for pair in ranking.pairs):
        return ["One round has no interval: run more rounds."]
    choice = _choose(ranking, picks)
    lead = choice.best[0]
    if len(choice.best) == 1:
        following = next(row for row in picks if row is not lead)
        beaten = [row for row in choice.beaten if row is not following]
        return [_use_one(ranking, lead, following), *_avoid(ranking, choice, beaten)]
    return [_use(ranking, choice), *_avoid(ranking, choice, choice.beaten)]


def _choose(ranking: Ranking, picks: Sequence[RankRow]) -> _Choice:
    def beats(one: RankRow, other: RankRow) -> bool:
        return _relation(ranking, one.arm, other.arm) == _BETTER

    beaten = [row for row in picks if any(beats(other, row) for other in picks)]
    best = [row for row in picks if row not in beaten] or list(picks)
    lead = next((row for row in best if row.arm == ranking.reference), best[0])
    same = [row for row in best if row is lead or _relation(ranking, row.arm, lead.arm) == EQUIVALENT]
    return _Choice([lead, *(row for row in best if row is not lead)], same, beaten)


def _use_one(ranking: Ranking, lead: RankRow, following: RankRow) -> str:
    if _relation(ranking, lead.arm, following.arm) != _BETTER:
        return f"Use {lead.arm}."
    pair = _pair(ranking, lead.arm, following.arm)
    return f"Use {lead.arm}: {_size(pair, ranking)} than {following.arm}, the next." if pair else f"Use {lead.arm}."


def _use(ranking: Ranking, choice: _Choice) -> str:
    lead, margin = choice.best[0], _margin(ranking)
    if len(choice.same) == 1:
        best, bound = [row.arm for row in choice.best], _bound(ranking, choice.best)
        if choice.beaten:
            return f"Use {units.listed(best, 'or')}: no significant difference between them{bound}."
        return f"No significant difference between {units.listed(best)}{bound}."
    each = all(
        _relation(ranking, one.arm, other.arm) == EQUIVALENT
        for one in choice.same
        for other in choice.same
        if one is not other
    )
    if each:
        return f"Use {units.listed([row.arm for row in choice.same], 'or')}: equivalent within {margin}."
    lead_first = [lead.arm, *(row.arm for row in choice.same if row is not lead)]
    return f"Use {units.listed(lead_first, 'or')}: each is equivalent to the first within {margin}."


def _bound(ranking: Ranking, rows: Sequence[RankRow]) -> str:
    """Return ``; up to 12 % is possible``: the farthest end of the simultaneous intervals of these arms' pairs."""
    names = {row.arm for row in rows}
    known = [pair for pair in ranking.pairs if {pair.arm, pair.other} <= names]
    ends = [end for pair in known for end in (pair.high_all, pair.low_all and 1 / pair.low_all) if end]
    if not ends or max(ends) >= _UNBOUNDED:
        return ""
    size = (max(ends) - 1) * 100
    return f"; up to {size:.{0 if size >= 10 else 1}f} % is possible"


def sweep_advice(rankings: Sequence[Ranking], set_aside: Collection[str] = ()) -> list[str]:
    """Return which arms to use at which points of a sweep, and which to avoid, a line each."""
    use: dict[str, list[str]] = {}
    avoid: dict[str, list[str]] = {}
    for ranking in rankings:
        picks = [row for row in ranking.picks if row.arm not in set_aside] or list(ranking.picks)
        if len(picks) < 2 or not any(pair.low_all is not None for pair in ranking.pairs):
            continue
        choice = _choose(ranking, picks)
        if choice.beaten:
            best = choice.same if len(choice.same) > 1 else choice.best
            use.setdefault(units.listed([row.arm for row in best], "or"), []).append(ranking.point)
        for row in reversed(choice.beaten):
            avoid.setdefault(row.arm, []).append(ranking.point)
    said = []
    for word, found in (("Use", use), ("Avoid", avoid)):
        parts = [f"{arms} {_where(points, len(rankings))}" for arms, points in found.items()]
        more = f"; {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
        said += [f"{word} {'; '.join(parts[:_NAMED])}{more}."] if parts else []
    return said


def _where(points: Sequence[str], every: int) -> str:
    if len(points) == every:
        return "at every point"
    return f"at {units.listed(points)}" if len(points) <= _NAMED else f"at {len(points)} of {every} points"


def _avoid(ranking: Ranking, choice: _Choice, beaten: Sequence[RankRow]) -> Iterator[str]:
    """The worst first."""
    lead = choice.best[0]
    said = []
    for row in reversed(beaten):
        by = next(other for other in (*choice.best, *choice.beaten) if _is_worse(ranking, row, other))
        pair = _pair(ranking, row.arm, by.arm)
        than = "" if by is lead else f" than {by.arm}"
        said.append(f"{row.arm}: {_size(pair, ranking)}{than}" if pair else row.arm)
    if said:
        more = f"; {len(said) - _NAMED} more" if len(said) > _NAMED else ""
        yield f"Avoid {'; '.join(said[:_NAMED])}{more}."


def _is_worse(ranking: Ranking, row: RankRow, other: RankRow) -> bool:
    return _relation(ranking, row.arm, other.arm) == _WORSE


def _only(ranking: Ranking, row: RankRow) -> str:
    other = next((item for item in ranking.rows if not item.pick and item.against), None)
    pair = _pair(ranking, row.arm, other.arm) if other else None
    if pair is None:
        return f"{row.arm}: no other arm to compare it with."
    found = {EQUIVALENT: f", equivalent within {_margin(ranking)}", INCONCLUSIVE: ", not significant"}
    said = found.get(_relation(ranking, pair.arm, pair.other), "")
    return f"{row.arm} vs {pair.other}: {difference(pair)}{said}."


def _relation(ranking: Ranking, arm: str, other: str) -> str:
    """Return EQUIVALENT, _BETTER, _WORSE or INCONCLUSIVE; '' without an interval."""
    pair = _pair(ranking, arm, other)
    if pair is None or pair.low_all is None:
        return ""
    if pair.equivalent(ranking.margin):
        return EQUIVALENT
    if not pair.significant:
        return INCONCLUSIVE
    return _BETTER if (pair.ratio > 1) == (ranking.better == MORE_IS_BETTER) else _WORSE


def _pair(ranking: Ranking, arm: str, other: str) -> Difference | None:
    """Return the first over the second."""
    for item in ranking.pairs:
        if (item.arm, item.other) == (arm, other):
            return item
        if (item.arm, item.other) == (other, arm):
            return _inverse(item)
    return None


def _inverse(item: Difference) -> Difference:
    low, high, low_all, high_all, low_bound, high_bound = (
        None if end is None else 1 / end if end else math.inf
        for end in (item.high, item.low, item.high_all, item.low_all, item.high_bound, item.low_bound)
    )
    return replace(
        item, arm=item.other, other=item.arm, ratio=1 / item.ratio, low=low, high=high, low_all=low_all,
        high_all=high_all, low_bound=low_bound, high_bound=high_bound,
    )  # fmt: skip


def _margin(ranking: Ranking) -> str:
    return f"±{units.asked(ranking.margin)}"


def _size(item: Difference, ranking: Ranking) -> str:
    """Return ``12 % slower``, ``2.4 times slower``, ``8 % faster``; of other metrics more and less."""
    less, more = ("faster", "slower") if _is_time(ranking) else ("less", "more")
    word = more if item.ratio > 1 else less
    times = max(item.ratio, 1 / item.ratio)
    if times >= _TIMES:
        return f"{times:.1f} times {word}" if times < 100 else f"{times:,.0f} times {word}"
    size = abs(item.ratio - 1) * 100
    return f"{size:.0f} % {word}" if size >= 10 else f"{size:.1f} % {word}"


def difference(item: Difference) -> str:
    """Return the simultaneous interval."""
    return percent_interval(item.ratio, item.low_all, item.high_all)


def caption(ranking: Ranking) -> str:
    """Return what the table shows, by which its columns are read."""
    what = f"{_measure(ranking)}{units.at(ranking.point)}"
    return "; ".join([what, *_qualities(ranking), "simultaneous 95 % intervals"])


def legend(ranking: Ranking) -> str:
    """Return the caption in sentences, to stand below the table."""
    qualities = "".join(f"; {text}" for text in _qualities(ranking))
    what = f"Time is {_measure(ranking)}" if _is_time(ranking) else f"The figures are {_measure(ranking)}"
    groups = " Arms in one group do not differ significantly." if len({row.group for row in ranking.picks}) > 1 else ""
    return f"{what.replace('is time', 'is', 1)}{qualities}. Intervals are simultaneous, 95 %.{groups}"


def _measure(ranking: Ranking) -> str:
    return _MEASURES.get(ranking.metric) or described(ranking.metric).title or ranking.metric


def _qualities(ranking: Ranking) -> Iterator[str]:
    if ranking.better == MORE_IS_BETTER:
        yield "more is better"
    if ranking.typical:
        yield "ratios are trimmed means"
    if ranking.covariate:
        yield f"adjusted for {ranking.covariate}"


def table(
    ranking: Ranking,
    comparisons: Sequence[Comparison],
    width: int | None,
    tablefmt: str = "simple",
    most: int | None = None,
) -> str:
    """Return a row for each arm from the best to the worst.

    ``width``: columns of text; where that is too few, the table leaves out columns. ``most``: rows, without the worst
    arms."""
    headers = headings(ranking)
    listed = list(ranking.rows)
    while most is not None and len(listed) > most:  # what all are compared with stays
        listed.remove(next(row for row in reversed(listed) if row.against is not None))
    rows = cells(ranking, comparisons, listed)
    empty = {i for i in (_BARE, _VERDICT) if not any(row[i] for row in rows)}
    for left_out in (set[int](), {_BARE}, {_BARE, _GROUP}, {_BARE, _GROUP, _VERDICT}):
        shown = [i for i in range(len(headers)) if i not in left_out | empty]
        made = tabulate(
            [[row[i] for i in shown] for row in rows],
            [headers[i] for i in shown],
            tablefmt=tablefmt,
            disable_numparse=True,
        )
        if width is None or max(map(len, made.splitlines())) <= width:
            break
    hidden = len(ranking.rows) - len(listed)
    return made + (f"\n{hidden} more arms, all worse: --full" if hidden else "")


#: Columns that a narrow table leaves out.
_GROUP, _BARE, _VERDICT = 0, 4, 5


def headings(ranking: Ranking) -> list[str]:
    return ["group", "arm", _unit(ranking), f"vs {ranking.reference}", "vs bare, same FS", "verdict"]


def cells(ranking: Ranking, comparisons: Sequence[Comparison], rows: Sequence[RankRow]) -> list[list[str]]:
    """Return of each row a cell for each of the headings. ``comparisons``: the session's."""
    index = _over_bare(ranking, comparisons)
    return [_cells(row, ranking, index) for row in rows]


def _unit(ranking: Ranking) -> str:
    if _is_time(ranking):
        return "time"
    return f"{ranking.metric}, {ranking.unit}" if ranking.unit and ranking.unit != "s" else ranking.metric


def _over_bare(ranking: Ranking, comparisons: Sequence[Comparison]) -> Index:
    """Return what the session's comparisons say of the same metric: each arm over its own baseline."""
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
    over = index.get((row.arm, ranking.point))
    cost = percent_interval(over.ratio, over.low_all, over.high_all) if over else ""
    return [row.group, row.arm, value, against, cost, _verdict(row, ranking)]


def _verdict(row: RankRow, ranking: Ranking) -> str:
    if not row.pick:
        return "baseline"
    other = {} if _is_time(ranking) else {SLOWER: "worse", FASTER: "better"}
    return other.get(row.verdict, row.verdict) if row.against else ""


def _is_time(ranking: Ranking) -> bool:
    return ranking.metric in _MEASURES


def sentences(ranking: Ranking) -> Iterator[str]:
    """Return one for each pick that is not the reference, and for each filesystem what it costs by itself."""
    for row in ranking.picks:
        if row.against is not None:
            yield f"{row.arm}: {_said(row.against, ranking)}"
    for item in ranking.filesystems:
        yield f"{item.arm} vs {item.other}: {difference(item)}: the cost of that filesystem alone"


def _said(item: Difference, ranking: Ranking) -> str:
    if item.low_all is None or item.high_all is None:
        return f"{units.percent(item.ratio)} vs {item.other} in one round, without an interval"
    relation = _relation(ranking, item.arm, item.other)
    if relation == EQUIVALENT:
        return f"equivalent to {item.other} within {_margin(ranking)}, {difference(item)}"
    if relation == INCONCLUSIVE:
        return f"inconclusive vs {item.other}, {difference(item)}"
    return f"{_size(item, ranking)} than {item.other}, {difference(item)}"


def result_line(found: Sequence[Comparison]) -> str:
    """Return what a session found, in a line of a list: the largest significant cost, and how many others."""
    known = [item for item in found if item.ratio and item.low_all is not None and item.high_all is not None]
    clear = sorted((item for item in known if item.verdict_all in (MORE, LESS)), key=lambda item: -abs(_log(item)))
    if not clear:
        return f"{len(known)} comparison{'s' if len(known) != 1 else ''}, none significant" if known else ""
    first = clear[0]
    parts = [f"{units.against(first)} {percent_interval(first.ratio, first.low_all, first.high_all)}"]
    if len(clear) > 1:
        parts.append(f"{len(clear) - 1} more significant")
    if len(known) > len(clear):
        parts.append(f"{len(known) - len(clear)} not significant")
    return ", ".join(parts)


def _log(item: Comparison) -> float:
    return math.log(item.ratio) if item.ratio else 0.0
