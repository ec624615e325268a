"""The ranking: all arms that a user could pick against one reference, and which of them a session distinguishes. Pure.

Every two arms are compared within the rounds that contain both, across filesystems and engines. All pairs lend each
other their noise; intervals hold for one family at a time, each with 95 %, in a sweep at all its points together:

- *against the reference*: every other row with the reference (Dunnett 1955), ``bare`` on each filesystem included, as
  they share a column;
- *all pairs of picks*: of letters and ranks. A pair of which one is the reference takes its relation from the first
  family, so that no row contradicts its group;
- *filesystems*: bare on each further filesystem with bare on the first;
- *each pick with the best* (Hsu 1984, doi:10.1214/aos/1176346732): a pick is outdone by one that is better by the
  one-sided simultaneous bounds of all comparisons of that pick. With 95 % the best pick is not outdone.

An arm and its baseline have the figures of the session's comparison of the two, wherever both stand: one comparison has
one interval of each kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from string import ascii_lowercase

import numpy as np

from kit.analysis.runs.compare import Comparison, compare, is_control
from kit.analysis.runs.paired import find_adjusting, pair_up
from kit.analysis.runs.run_table import Key, Runs
from kit.analysis.session.difference import Difference, PairSet
from kit.analysis.stats import estimators
from kit.analysis.stats.estimate import INCONCLUSIVE, LESS, MORE, REFERENCE, Verdict
from kit.core.errors import UsageError
from kit.model.arm import PLAIN, known_arm
from kit.model.default_driver import common_drivers
from kit.model.metric import described
from kit.model.plan import DEFAULT_MARGIN
from kit.model.variant import of_first_variant

#: The ranking's default metric: time until the data is safe.
DURABLE, REAL = "durable", "real"
MORE_IS_BETTER = "more"
#: The common choices; the first one that ran is the reference if the session names none.
_COMMON = tuple(f"layer:{words}" for words in common_drivers())


@dataclass(frozen=True)
class RankRow:
    """One arm.

    ``typical`` keeps the order of the ratios where a covariate or a few bad runs move the mean; of unpaired runs it is
    the mean too. Two arms that share a letter are not significantly different (Piepho 2004). An arm that is no pick
    (``bare``) has neither ranks nor letters: 0 and ''. An arm may differ significantly and yet by less than the margin:
    it is ``equivalent``, since that answers whether the difference matters.
    """

    arm: str
    pick: bool
    seconds: float  # mean of its n runs, in seconds or the metric's unit
    typical: float  # the reference's mean times the ratio
    against: Difference | None  # it over the reference; None for the reference itself
    rank_low: int  # 1 and as many as are significantly better (Mogstad et al. 2024)
    rank_high: int  # the highest rank that it may have
    group: str  # letters
    n: int  # number of its runs
    verdict: Verdict = ""  # '' if one round or none contains both


@dataclass(frozen=True)
class Ranking:
    """The arms of one point, ranked by one metric of one phase."""

    metric: str
    unit: str
    better: str
    phase: str
    point: str
    reference: str
    rows: tuple[RankRow, ...]  # from the best to the worst, those that are no picks among them
    #: Bare on each further filesystem over bare on the first: what the filesystem alone costs.
    filesystems: tuple[Difference, ...]
    pairs: tuple[Difference, ...]  # every two picks, and all others with the reference
    covariate: str = ""  # what the ratios are adjusted for
    #: What ran, but has no ratio to the reference: no round contains both, or figures of 0.
    unranked: tuple[str, ...] = ()
    margin: float = DEFAULT_MARGIN  # 0.03 where differences below 3 % are equivalent
    #: Those that intervals are widened for; 0 where their number was fixed beforehand.
    rounds: int = 0
    #: A pick, and one that is better than it in the comparison with the best.
    outdone: tuple[tuple[str, str], ...] = ()
    unpaired: bool = False  # runs are independent samples
    labelled: bool = False  # arms are labels of imported figures
    #: What each row's arm costs over its baseline, where that is no container.
    costs: tuple[Comparison, ...] = ()

    @property
    def judged(self) -> tuple[RankRow, ...]:
        """Return the picks that are compared with the reference. If the reference is the only pick, the other rows."""
        others = tuple(row for row in self.rows if row.against is not None)
        return tuple(row for row in others if row.pick) or others

    @property
    def undecided(self) -> tuple[RankRow, ...]:
        """Return the judged rows that are neither significantly different from the reference nor equivalent to it. An
        arm without interval counts, unless its own runs failed."""
        # reruns make an arm's own n larger
        most = max((row.against.ratio.n for row in self.rows if row.against), default=0)
        return tuple(
            row
            for row in self.judged
            if row.verdict == INCONCLUSIVE or (not row.verdict and row.against and row.against.ratio.n == most)
        )

    @property
    def decided(self) -> bool:
        """Return whether each arm has a verdict, so that no more rounds are needed."""
        return not self.undecided

    @property
    def picks(self) -> tuple[RankRow, ...]:
        return tuple(row for row in self.rows if row.pick)

    @property
    def typical(self) -> bool:
        """Return whether ratios are those of typical rounds, without a tenth at either end."""
        return not self.unpaired and any(pair.ratio.n >= estimators.ROBUST_FROM for pair in self.pairs)


def rank(
    runs: Runs,
    arms: Sequence[str],
    metric: str = "",
    reference: str = "",
    margin: float = DEFAULT_MARGIN,
    rounds: int = 0,
    default_reference: str = "",
    baselines: Sequence[tuple[str, str]] = (),
    with_best: bool = True,
) -> tuple[Ranking, ...]:
    """Return one ranking for each point that contains two arms or more, over the whole run. ``metric``: ``whole`` where
    it was measured, else ``real``. ``margin``: differences below it are equivalent, 0.03 for 3 %. ``rounds``: as
    kit.analysis.session.stopping.looks returns them. ``default_reference``: the reference if none is named, provided
    that it ran. ``baselines``: of the session, the control's too. ``with_best``: compare each pick with the best, too,
    which takes half the time; the next run waits where a session looks at its answer. Raises UsageError for a metric or
    a reference that is missing."""
    request = _RankRequest(arms, metric, reference, margin, rounds, default_reference, tuple(baselines), with_best)
    by_point = (_rank(runs, point, request) for point in runs.points)
    rankings = [ranking for ranking in by_point if ranking]
    if not rankings and (metric or reference):
        _explain(runs, arms, metric, reference)
    return tuple(rankings)


@dataclass(frozen=True)
class _RankRequest:
    """What ``rank`` is asked for."""

    arms: Sequence[str]
    metric: str
    reference: str
    margin: float
    rounds: int
    default_reference: str
    baselines: tuple[tuple[str, str], ...]
    with_best: bool


def rank_by(
    runs: Runs, arms: Sequence[str], metric: str, ranking: Ranking, baselines: Sequence[tuple[str, str]]
) -> Ranking | None:
    """Return the ranking of the same point by another metric; None if its reference or all other arms lack it."""
    key = ranking.reference, ranking.point
    if not measured(runs, [key], runs.phases([key])[-1], metric):
        return None
    request = _RankRequest(arms, metric, ranking.reference, ranking.margin, ranking.rounds, "", tuple(baselines), True)
    return _rank(runs, ranking.point, request)


def _explain(runs: Runs, arms: Sequence[str], metric: str, reference: str) -> None:
    ran = [arm for arm in arms if runs.ran(arm)]
    if reference and reference not in ran:
        raise UsageError(f"reference {reference}: no run of it succeeded", f"use one of: {', '.join(ran)}")
    if metric and len(ran) > 1:
        raise UsageError(
            f"metric {metric}: not measured in two arms or more", f"use for example {DURABLE}, {REAL}, cpu_total"
        )


def _rank(runs: Runs, point: str, request: _RankRequest) -> Ranking | None:
    reference, margin, rounds = request.reference, request.margin, request.rounds
    keys = [(arm, point) for arm in request.arms if runs.has((arm, point)) and not is_control(arm)]
    names = [arm for arm, _ in keys]
    picks, grounds = (names, []) if runs.labelled else split_picks(names)
    keys = [key for key in keys if key[0] in (*picks, *grounds)]
    if len(keys) < 2 or (reference and (reference, point) not in keys):
        return None
    phase = runs.phases(keys)[-1]
    metric = request.metric or (DURABLE if measured(runs, keys, phase, DURABLE) else REAL)
    keys = [key for key in keys if measured(runs, [key], phase, metric)]
    picks, grounds = ([arm for arm in listed if (arm, point) in keys] for listed in (picks, grounds))
    if not picks or len(keys) < 2:
        return None
    figure = runs.reported(keys, phase).get(metric) or described(metric)
    better = figure.better
    arm_pairs = list(combinations(picks, 2)) + [(pick, backing_root) for backing_root in grounds for pick in picks]
    arm_pairs += combinations(grounds, 2) if reference in grounds else [(grounds[0], other) for other in grounds[1:]]
    adjusting = find_adjusting(runs, keys, phase, metric)
    paired = [pair_up(runs, ((arm, point), (other, point)), phase, metric, adjusting) for arm, other in arm_pairs]
    compared = _compared(runs, request, point, phase, metric)
    visible = max((comparison.visible for comparison in compared), default=1.0)
    pairs = PairSet([pair for pair in paired if pair and pair.positive], rounds, len(runs.points), visible)
    everyone = pairs.differences(pair for pair in arm_pairs if set(pair) <= set(picks))
    chosen = reference or _choose(picks, everyone, better, request.default_reference)
    of_chosen = pairs.differences(pair for pair in arm_pairs if chosen in pair)
    differences = {pair: of_chosen.get(pair, difference) for pair, difference in everyone.items()} | of_chosen
    differences |= dict(_of_baselines(differences, compared))
    rows = _rows(runs, keys, phase, metric, picks, differences, chosen, better, margin)
    first, *others = of_first_variant([arm for arm in grounds if not _is_rebuild(arm)]) or [""]
    across = pairs.differences((first, other) for other in others)
    return Ranking(
        metric, figure.unit, better, phase, point, chosen, rows,
        tuple(across[other, first] for other in others if (other, first) in across),
        tuple(differences[pair] for pair in arm_pairs if pair in differences), adjusting.name if adjusting else "",
        tuple(arm for arm, _ in keys if arm not in {row.arm for row in rows}), margin, rounds,
        tuple(pair for pick in picks if request.with_best for pair in _outdone(pick, picks, pairs, better)),
        runs.unpaired, runs.labelled, () if runs.labelled else tuple(_costs(compared, rows)),
    )  # fmt: skip


def _compared(runs: Runs, request: _RankRequest, point: str, phase: str, metric: str) -> list[Comparison]:
    """Return the session's comparisons of arms and their baselines, the control's too."""
    comparisons = runs.once(_compare, runs, request.baselines, metric, request.rounds)
    return [comparison for comparison in comparisons if (comparison.point, comparison.phase) == (point, phase)]


def _compare(runs: Runs, baselines: tuple[tuple[str, str], ...], metric: str, rounds: int) -> tuple[Comparison, ...]:
    return compare(runs, baselines, (metric,), whole=True, looks=rounds)


def _costs(compared: Sequence[Comparison], rows: Sequence[RankRow]) -> Iterator[Comparison]:
    """Yield what the arms of the rows cost over no container."""
    listed = {row.arm for row in rows}
    yield from (
        comparison for comparison in compared if comparison.arm in listed and comparison.baseline.startswith(PLAIN)
    )


def _of_baselines(
    differences: dict[tuple[str, str], Difference], compared: Sequence[Comparison]
) -> Iterator[tuple[tuple[str, str], Difference]]:
    """Yield the pairs of an arm and its baseline, in both directions, by the session's comparison of the two."""
    for comparison in compared:
        if pair := differences.get((comparison.arm, comparison.baseline)):
            difference = pair.of_baseline(comparison)
            yield (comparison.arm, comparison.baseline), difference
            yield (comparison.baseline, comparison.arm), difference.turned


def _outdone(pick: str, picks: Sequence[str], pairs: PairSet, better: str) -> Iterator[tuple[str, str]]:
    """Yield the pick with each pick that outdoes it. The 90 % interval of a family errs on either side with 5 %."""
    family = [pair for rival in picks if rival != pick for pair in ((pick, rival), (rival, pick))]
    for (arm, other), difference in pairs.differences(family).items():
        bounded = difference.ratio.bounded
        if arm == pick and bounded and bounded.beside(1.0) == (LESS if better == MORE_IS_BETTER else MORE):
            yield arm, other


def split_picks(arms: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arms that a user could pick, and ``bare`` on each filesystem, which shows the filesystem's cost.

    A pick runs a build in a container on a driver; ``runtime`` is a rung of the ladder. A rebuild with a filled cache
    does less work than the other arms: it is no pick, and follows ``bare``. Without any pick, all arms are picks:
    filesystems compared by ``bare``, unions, imported figures."""
    parsed = {arm: known_arm(arm) for arm in arms if not is_control(arm)}
    able = [
        arm
        for arm, parsed_arm in parsed.items()
        if parsed_arm and parsed_arm.contained and parsed_arm.placement != "runtime"
    ]
    if not able:
        return list(parsed), []
    picks = [arm for arm in able if not _is_rebuild(arm)] or able
    grounds = [arm for arm, parsed_arm in parsed.items() if parsed_arm and parsed_arm.placement in PLAIN]
    return picks, [*grounds, *(arm for arm in able if arm not in picks)]


def _is_rebuild(arm: str) -> bool:
    return (parsed := known_arm(arm)) is not None and parsed.rebuild


def measured(runs: Runs, keys: Sequence[Key], phase: str, metric: str) -> bool:
    return all(bool(np.isfinite(runs.values(key, phase, metric)).any()) for key in keys)


def _choose(
    picks: Sequence[str], differences: dict[tuple[str, str], Difference], better: str, default_reference: str
) -> str:
    """Return the default reference if it ran, else the first common one that ran, else the best pick: the one
    that beats most others."""
    for name in (default_reference, *_COMMON):
        if name in picks:
            return name
    wins = {pick: sum(_beats(differences.get((pick, other)), better) for other in picks) for pick in picks}
    return max(picks, key=lambda pick: wins[pick])


def _beats(difference: Difference | None, better: str) -> bool:
    return difference is not None and (
        difference.ratio.estimate > 1 if better == MORE_IS_BETTER else difference.ratio.estimate < 1
    )


def _rows(
    runs: Runs, keys: Sequence[Key], phase: str, metric: str, picks: Sequence[str],
    differences: dict[tuple[str, str], Difference], reference: str, better: str, margin: float,
) -> tuple[RankRow, ...]:  # fmt: skip
    point = keys[0][1]
    base = _mean(runs, (reference, point), phase, metric)
    ranked = [arm for arm, _ in keys if arm == reference or (arm, reference) in differences]
    ratio = {arm: differences[arm, reference].ratio.estimate if arm != reference else 1.0 for arm in ranked}
    order = sorted(ranked, key=lambda arm: ratio[arm], reverse=better == MORE_IS_BETTER)
    listed = [arm for arm in order if arm in picks]
    apart = {
        pair for pair, difference in differences.items() if difference.ratio.significant and set(pair) <= set(listed)
    }
    letters = find_letters(listed, apart)
    rows = []
    for arm in order:
        mean = _mean(runs, (arm, point), phase, metric)
        lost = sum((arm, other) in apart and _beats(differences[other, arm], better) for other in listed)
        won = sum((arm, other) in apart and _beats(differences[arm, other], better) for other in listed)
        pick, against = arm in listed, differences.get((arm, reference))
        rows.append(
            RankRow(
                arm, pick, mean, mean if runs.unpaired else base * ratio[arm], against,
                1 + lost if pick else 0, len(listed) - won if pick else 0, letters.get(arm, ""),
                int(np.isfinite(runs.values((arm, point), phase, metric)).sum()), _verdict(against, better, margin),
            )
        )  # fmt: skip
    return tuple(rows)


def _verdict(against: Difference | None, better: str, margin: float) -> Verdict:
    if against is None:
        return REFERENCE
    return "" if against.ratio.together.low is None else against.ratio.judge(margin, better)


def _mean(runs: Runs, key: Key, phase: str, metric: str) -> float:
    return float(np.nanmean(runs.values(key, phase, metric)))


def find_letters(arms: Sequence[str], apart: set[tuple[str, str]]) -> dict[str, str]:
    """Return the compact letter display: two arms share a letter if and only if they are not in ``apart``. Insert and
    absorb keeps letters few (Piepho 2004). ``arms`` from the best to the worst, ``a`` for the best."""
    columns = [set(arms)]
    for first, second in combinations(arms, 2):
        if (first, second) not in apart and (second, first) not in apart:
            continue
        cut = [column - {name} for column in columns if {first, second} <= column for name in (second, first)]
        columns = [column for column in columns if not {first, second} <= column]
        for column in cut:
            if not any(column <= present for present in columns):
                columns = [present for present in columns if not present < column] + [column]
    place = {arm: i for i, arm in enumerate(arms)}
    columns.sort(key=lambda column: sorted(place[arm] for arm in column))
    return {arm: "".join(_letter(i) for i, column in enumerate(columns) if arm in column) for arm in arms}


def _letter(number: int) -> str:
    return ascii_lowercase[number] if number < len(ascii_lowercase) else f"({number + 1})"
