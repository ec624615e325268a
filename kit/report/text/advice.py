"""What a container costs, which arms to use and which to avoid, and how one arm is compared with another in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from kit.analysis.runs.compare import Comparison
from kit.analysis.session.difference import Difference
from kit.analysis.session.ranking import DURABLE, REAL, Ranking, RankRow
from kit.analysis.stats.estimate import EQUIVALENT, FASTER, INCONCLUSIVE, NOT_SIGNIFICANT, SLOWER
from kit.core.listing import in_words
from kit.model.arm import known_arm
from kit.model.default_driver import GRAPH_DRIVER, IMAGE_STORE
from kit.report.format import units
from kit.report.format.interval import percent_interval

#: Arms that a line names at most.
_NAMED = 4
#: From this ratio on a difference reads better as ``2.4 times slower`` than in percent.
_TIMES = 2.0
#: From this ratio on a sentence names no figure: two rounds that differ much leave almost any ratio possible.
_UNBOUNDED = 11.0


@dataclass(frozen=True)
class _Choice:
    """A choice of arms."""

    #: Picks that may be the best or are equivalent to its first, the reference of the others.
    best: Sequence[RankRow]
    same: Sequence[RankRow]  # those equivalent to the first, itself included
    beaten: Sequence[RankRow]  # picks that are significantly worse than another one


def headline(ranking: Ranking, set_aside: Collection[str] = ()) -> str:
    """Return ``advice`` in one line."""
    return " ".join(advice(ranking, set_aside))


def advice(ranking: Ranking, set_aside: Collection[str] = ()) -> list[str]:
    """Return what a container costs, which arms to use and which to avoid, a line each.

    ``set_aside``: arms whose figure is not what they cost in use."""
    picks = [row for row in ranking.picks if row.arm not in set_aside] or list(ranking.picks)
    if len(picks) == 1:
        return [_only(ranking, picks[0])]
    if not any(pair.ratio.together.low is not None for pair in ranking.pairs):
        if ranking.unpaired:
            return ["One run has no interval: give several runs of each label."]
        return ["One round has no interval: run more rounds."]
    choice = _choose(ranking, picks)
    lead = choice.best[0]
    costs = _cost_line(ranking, _container_costs(ranking, [ranking.reference, lead.arm]))
    if len(choice.best) == 1:
        following = next(row for row in picks if row is not lead)
        beaten = [row for row in choice.beaten if row is not following]
        return [*costs, _use_one(ranking, lead, following), *_avoid(ranking, choice, beaten)]
    return [*costs, _use(ranking, choice, picks), *_avoid(ranking, choice, choice.beaten)]


def _container_costs(ranking: Ranking, arms: Sequence[str]) -> list[str]:
    """Return what a container costs over none with each of these arms that is one:
    ``+6.3 % [+3.4, +9.1] (layer:overlay2 vs bare)``."""
    costs = {comparison.arm: comparison for comparison in ranking.costs if comparison.low_all is not None}
    contained = [arm for arm in dict.fromkeys(arms) if (parsed := known_arm(arm)) and parsed.contained]
    return [
        f"{percent_interval(cost.together)}{_reservation(cost, ranking)} ({cost.arm} vs {cost.baseline})"
        for arm in contained
        if (cost := costs.get(arm))
    ]


def _reservation(comparison: Comparison, ranking: Ranking) -> str:
    if comparison.equivalent(ranking.margin):
        return f", equivalent within {margin(ranking)}"
    return ", not significant" if comparison.verdict_all == NOT_SIGNIFICANT else ""


def _cost_line(ranking: Ranking, costs: Sequence[str]) -> list[str]:
    verb = "costs" if is_time(ranking) else "changes the result by"
    more = f"; {len(costs) - _NAMED} more" if len(costs) > _NAMED else ""
    return [f"A container {verb} {'; '.join(costs[:_NAMED])}{more}."] if costs else []


def _choose(ranking: Ranking, picks: Sequence[RankRow]) -> _Choice:
    def beats(row: RankRow, other: RankRow) -> bool:
        return relation(ranking, row.arm, other.arm) == FASTER

    beaten = [row for row in picks if any(beats(other, row) for other in picks)]
    names = {row.arm for row in picks}
    outdone = {arm for arm, other in ranking.outdone if {arm, other} <= names}
    possible = [row for row in picks if row not in beaten] or list(picks)
    leading = [row for row in possible if row.arm not in outdone] or possible
    lead = next((row for row in possible if row.arm == ranking.reference), leading[0])
    if lead not in leading and relation(ranking, lead.arm, leading[0].arm) != EQUIVALENT:
        lead = leading[0]
    equal = [row for row in possible if row is lead or relation(ranking, row.arm, lead.arm) == EQUIVALENT]
    best = [row for row in possible if row in leading or row in equal]
    return _Choice([lead, *(row for row in best if row is not lead)], equal, beaten)


def _use_one(ranking: Ranking, lead: RankRow, following: RankRow) -> str:
    if relation(ranking, lead.arm, following.arm) != FASTER:
        return f"Use {lead.arm}: it is the best with 95 % confidence."
    pair = _pair(ranking, lead.arm, following.arm)
    return f"Use {lead.arm}: {size(pair, ranking)} than {following.arm}, the next." if pair else f"Use {lead.arm}."


def _use(ranking: Ranking, choice: _Choice, picks: Sequence[RankRow]) -> str:
    lead, within = choice.best[0], margin(ranking)
    if len(choice.same) == 1:
        best, bound = [row.arm for row in choice.best], _bound(ranking, choice.best)
        if len(best) < len(picks):
            return f"Use {in_words(best, 'or')}: no significant difference between them{bound}."
        return f"No significant difference between {in_words(best)}{bound}."
    each = all(
        relation(ranking, row.arm, other.arm) == EQUIVALENT
        for row in choice.same
        for other in choice.same
        if row is not other
    )
    if each:
        return f"Use {in_words([row.arm for row in choice.same], 'or')}: equivalent within {within}."
    lead_first = [lead.arm, *(row.arm for row in choice.same if row is not lead)]
    return f"Use {in_words(lead_first, 'or')}: each is equivalent to the first within {within}."


def _bound(ranking: Ranking, rows: Sequence[RankRow]) -> str:
    """Return ``; at most 12 % apart``: the farthest bound of these arms' pairs. It is wrong only if a pair's bound on
    the side of its true difference is, and all bounds on those sides hold with 95 %."""
    names = {row.arm for row in rows}
    pairs = [pair for pair in ranking.pairs if {pair.arm, pair.other} <= names]
    bounds = [pair.ratio.bounded for pair in pairs if pair.ratio.bounded]
    ends = [end for bound in bounds for end in (bound.high, bound.low and 1 / bound.low) if end]
    if not ends or max(ends) >= _UNBOUNDED:
        return ""
    size = (max(ends) - 1) * 100
    return f"; at most {size:.{0 if size >= 10 else 1}f} % apart"


def sweep_advice(rankings: Sequence[Ranking], set_aside: Collection[str] = ()) -> list[str]:
    """Return which arms to use at which points of a sweep, and which to avoid, a line each."""
    use: dict[str, list[str]] = {}
    avoid: dict[str, list[str]] = {}
    for ranking in rankings:
        picks = [row for row in ranking.picks if row.arm not in set_aside] or list(ranking.picks)
        if len(picks) < 2 or not any(pair.ratio.together.low is not None for pair in ranking.pairs):
            continue
        choice = _choose(ranking, picks)
        if len(choice.best) < len(picks):
            best = choice.same if len(choice.same) > 1 else choice.best
            use.setdefault(in_words([row.arm for row in best], "or"), []).append(ranking.point)
        for row in reversed(choice.beaten):
            avoid.setdefault(row.arm, []).append(ranking.point)
    costs = [
        f"{cost}{units.at(ranking.point)}"
        for ranking in rankings
        for cost in _container_costs(ranking, [ranking.reference])
    ]
    lines = _cost_line(rankings[0], costs) if rankings else []
    for word, groups in (("Use", use), ("Avoid", avoid)):
        parts = [f"{arms} {_where(points, len(rankings))}" for arms, points in groups.items()]
        more = f"; {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
        lines += [f"{word} {'; '.join(parts[:_NAMED])}{more}."] if parts else []
    return lines


def _where(points: Sequence[str], every: int) -> str:
    if len(points) == every:
        return "at every point"
    return f"at {in_words(points)}" if len(points) <= _NAMED else f"at {len(points)} of {every} points"


def _avoid(ranking: Ranking, choice: _Choice, beaten: Sequence[RankRow]) -> Iterator[str]:
    """Return the arms to avoid, the worst first."""
    entries = []
    for row in reversed(beaten):
        by = next(other for other in (*choice.best, *choice.beaten) if _is_worse(ranking, row, other))
        pair = _pair(ranking, row.arm, by.arm)
        entries.append(f"{row.arm}: {size(pair, ranking)} than {by.arm}" if pair else row.arm)
    if entries:
        more = f"; {len(entries) - _NAMED} more" if len(entries) > _NAMED else ""
        yield f"Avoid {'; '.join(entries[:_NAMED])}{more}."


def _is_worse(ranking: Ranking, row: RankRow, other: RankRow) -> bool:
    return relation(ranking, row.arm, other.arm) == SLOWER


def _only(ranking: Ranking, row: RankRow) -> str:
    if costs := _cost_line(ranking, _container_costs(ranking, [row.arm])):
        return costs[0]
    other = next((candidate for candidate in ranking.rows if not candidate.pick and candidate.against), None)
    pair = _pair(ranking, row.arm, other.arm) if other else None
    if pair is None:
        why = "no other arm has a ratio to it" if ranking.unranked else "no other arm to compare it with"
        return f"{row.arm}: {why}."
    verdicts = {EQUIVALENT: f", equivalent within {margin(ranking)}", INCONCLUSIVE: ", not significant"}
    verdict = verdicts.get(relation(ranking, pair.arm, pair.other), "")
    more = " Run more rounds for an interval." if pair.ratio.together.low is None else ""
    return f"{row.arm} vs {pair.other}: {difference(pair)}{verdict}.{more}"


def switch_notes(ranking: Ranking) -> Iterator[str]:
    """Say what it costs to switch a Docker to containerd's image store, where a session has both drivers: of layers
    first."""
    parsed = {row.arm: arm for row in ranking.picks if not ranking.labelled and (arm := known_arm(row.arm))}
    for name, arm in sorted(parsed.items(), key=lambda entry: entry[1].placement != "layer"):
        before = str(replace(arm, driver=GRAPH_DRIVER))
        pair = _pair(ranking, name, before) if arm.driver == IMAGE_STORE and before in parsed else None
        if pair:
            better, worse = ("faster", "slower") if is_time(ranking) else ("better", "worse")
            verdicts = {
                EQUIVALENT: f", equivalent within {margin(ranking)}",
                INCONCLUSIVE: ", not significant",
                FASTER: f", {better}",
                SLOWER: f", {worse}",
            }
            verdict = verdicts.get(relation(ranking, name, before), "")
            sentence = f"Switching from {before} to {name} (containerd's image store) changes the result"
            yield f"{sentence}{units.at(ranking.point)} by {difference(pair)}{verdict}."


def relation(ranking: Ranking, arm: str, other: str) -> str:
    """Return EQUIVALENT, FASTER, SLOWER or INCONCLUSIVE; '' without an interval."""
    pair = _pair(ranking, arm, other)
    if pair is None or pair.ratio.together.low is None:
        return ""
    return pair.ratio.judge(ranking.margin, ranking.better)


def _pair(ranking: Ranking, arm: str, other: str) -> Difference | None:
    """Return the first over the second."""
    for pair in ranking.pairs:
        if (pair.arm, pair.other) == (arm, other):
            return pair
        if (pair.arm, pair.other) == (other, arm):
            return pair.turned
    return None


def margin(ranking: Ranking) -> str:
    return f"±{units.asked(ranking.margin)}"


def size(pair: Difference, ranking: Ranking) -> str:
    """Return ``12 % slower``, ``2.4 times slower``, ``8 % faster``; of other metrics more and less."""
    less, more = ("faster", "slower") if is_time(ranking) else ("less", "more")
    ratio = pair.ratio.estimate
    word = more if ratio > 1 else less
    times = max(ratio, 1 / ratio)
    if times >= _TIMES:
        return f"{times:.1f} times {word}" if times < 100 else f"{times:,.0f} times {word}"
    size = abs(ratio - 1) * 100
    return f"{size:.0f} % {word}" if size >= 10 else f"{size:.1f} % {word}"


def difference(pair: Difference) -> str:
    """Return the simultaneous interval."""
    return percent_interval(pair.ratio.together)


def is_time(ranking: Ranking) -> bool:
    return ranking.metric in (DURABLE, REAL)
