"""Comparisons: each arm against its baseline, per phase and metric, with interval and verdict. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kit.analysis import pool, stats
from kit.analysis.columns import Key, Runs, differing, in_both
from kit.analysis.paired import Paired, find_adjusting, pair_up
from kit.analysis.stats import Centre
from kit.model.arm import CONTROL
from kit.model.metric import COMPARED, described
from kit.model.sample import Sample

MORE, LESS, NOT_DETECTED, NO_INTERVAL = "more", "less", "not detected", "no interval"


@dataclass(frozen=True, repr=False)
class Comparison:
    """One arm against its baseline in one metric of one phase.

    ``ratio`` with ``low`` and ``high`` is the geometric mean of the within-block ratios and its 95 % interval, None
    where a block has a zero; ``difference`` (seconds per run) is the mean of the within-block differences with its
    own. ``n`` counts blocks. ``detectable`` is the smallest ratio that n such blocks would have shown.

    ``low_all`` and ``high_all`` belong to intervals of which all ``family`` comparisons of this phase and metric hold
    at once with 95 %, ``difference_low_all`` and ``difference_high_all`` to those of the differences. ``verdict`` is
    that of the interval alone, ``verdict_all`` that of the wider one. ``covariate`` names what the ratio is adjusted
    for, ``narrowing`` the share by which that made its interval narrower, and ``adjusted`` is the arm's mean in
    seconds, had the covariate been in its runs what it was in the baseline's.
    ``point`` holds the values of swept parameters. ``metric`` is one of COMPARED, or a figure that the workload reports
    of itself, with its ``unit``; ``better`` says whether ``less`` or ``more`` of it is.

    From ROBUST_FROM blocks on the ratio is the typical one, the mean without a tenth at either end, and ``untrimmed``
    that of all. ``spread`` is the standard error of one block's log ratio, with ``borrowed`` degrees of freedom beyond
    the block's own, from the noise that arms share.
    """

    arm: str
    baseline: str
    phase: str
    metric: str
    ratio: float | None
    low: float | None
    high: float | None
    n: int
    difference: float
    difference_low: float | None
    difference_high: float | None
    detectable: float | None
    verdict: str
    point: str = ""
    low_all: float | None = None
    high_all: float | None = None
    family: int = 1
    verdict_all: str = NO_INTERVAL
    covariate: str = ""
    narrowing: float | None = None
    unit: str = "s"
    better: str = "less"
    adjusted: float | None = None
    untrimmed: float | None = None
    spread: float | None = None
    borrowed: int = 0
    difference_low_all: float | None = None
    difference_high_all: float | None = None

    def __repr__(self) -> str:
        """For assertions of tests: what was compared, the ratio, its interval."""
        at = f" at {self.point}" if self.point else ""
        what = f"{self.arm} / {self.baseline}{at}, {self.metric} of {self.phase}"
        if self.ratio is None:
            return f"<{what}: no ratio, {self.difference:+.4g} {self.unit}>"
        interval = "no interval" if self.low is None or self.high is None else f"{self.low:.3f}–{self.high:.3f}"
        return f"<{what}: {self.ratio:.3f} ({interval}), {self.n} rounds>"

    @property
    def control(self) -> bool:
        return is_control(self.arm)

    @property
    def outliers(self) -> bool:
        """True where the mean of all blocks lies outside the typical ratio's interval: a few runs make the difference,
        and both are worth a look."""
        if self.untrimmed is None or self.low is None or self.high is None:
            return False
        return not self.low <= self.untrimmed <= self.high

    @property
    def centre(self) -> Centre | None:
        """Of the logarithm of the ratio, with the error and degrees of freedom that its interval stands on."""
        if not self.ratio:
            return None
        degrees = stats.own_degrees(self.n) + self.borrowed
        error = None
        if self.low and self.high:
            half = math.log(self.high / self.low) / 2
            error = half / stats.student_quantile(0.5 + stats.CONFIDENCE / 2, degrees)
        return Centre(math.log(self.ratio), error, degrees, self.n)

    def rounds_to_tell(self, limit: float) -> tuple[int, int, int] | None:
        """Return how many rounds would distinguish the ratio from ``limit``, should it stay: few, typical and many, a
        range of 80 %. None where that is unknown."""
        if not self.spread or not self.ratio or self.ratio == limit:
            return None
        away = abs(math.log(self.ratio / limit))
        smaller, larger = stats.spread_range(stats.own_degrees(self.n) + self.borrowed)
        found = [pool.rounds_needed(self.spread * factor, self.borrowed, away) for factor in (smaller, 1.0, larger)]
        few, typical, many = found
        return None if few is None or typical is None or many is None else (few, typical, many)

    def low_among(self, family: int) -> float | None:
        """The lower end of an interval that holds at once with ``family`` - 1 others of any kind (Bonferroni)."""
        return stats.as_ratio(self.centre.interval(stats.family_confidence(family))).low if self.centre else None

    @property
    def reach(self) -> float:
        """How far the interval reaches from the ratio, as a share of it; infinite where there is none."""
        if not self.ratio or self.low is None or self.high is None:
            return math.inf
        return max(self.high / self.ratio - 1, 1 - self.low / self.ratio)


def is_control(arm: str) -> bool:
    return f"+{CONTROL}" in arm


def compare(
    samples: Iterable[Sample] | Runs,
    baselines: Sequence[tuple[str, str]],
    metrics: Sequence[str] = COMPARED,
    whole: bool = False,
    widening: float = 1.0,
) -> tuple[Comparison, ...]:
    """Compare measured samples in pairs (arm, baseline). Samples with different digests are not compared.

    ``whole``: only the whole run (the total, where there are several phases), not each phase. ``widening``: of the
    simultaneous intervals, by kit.analysis.stopping, where the session chose its own end.
    """
    runs = samples if isinstance(samples, Runs) else Runs(samples)
    pairs = [
        ((arm, point), (base, point))
        for point in runs.points
        for arm, base in baselines
        if runs.has((arm, point)) and runs.has((base, point))
    ]
    family = sum(not is_control(arm) for (arm, _), _ in pairs)
    found: list[Comparison] = []
    for point in runs.points:
        here = [pair for pair in pairs if pair[0][1] == point]
        keys = list(dict.fromkeys(key for pair in here for key in pair))
        for phase in runs.phases(keys)[-1 if whole else 0 :]:
            for metric in metrics:
                found += _compare_point(runs, here, phase, metric, family, widening)
            for name, figure in ({} if whole else runs.reported(keys, phase)).items():
                made = _compare_point(runs, here, phase, name, family, widening)
                found += [replace(item, unit=figure.unit, better=figure.better) for item in made]
    return tuple(found)


def _compare_point(
    runs: Runs, pairs: Sequence[tuple[Key, Key]], phase: str, metric: str, family: int, widening: float
) -> Iterator[Comparison]:
    """All arms at one point: they share what is known of the noise."""
    keys = list(dict.fromkeys(key for pair in pairs for key in pair))
    adjusting = find_adjusting(runs, keys, phase, metric)
    found = [made for pair in pairs if (made := pair_up(runs, pair, phase, metric, adjusting))]
    return compare_paired(found, phase, family, widening)


def compare_paired(found: Sequence[Paired], phase: str, family: int, widening: float = 1.0) -> Iterator[Comparison]:
    """Arms of which one metric is known block by block: they share what is known of its noise. Their intervals hold at
    once with all ``family`` comparisons that these belong to."""
    counted = [not is_control(item.arm[0]) for item in found]
    positive = [(item, one) for item, one in zip(found, counted, strict=True) if item.positive]
    shared = pool.share([item.ratio(one) for item, one in positive], family, widening)
    plain = shared
    if any(item.adjusting for item in found):
        plain = pool.share([item.ratio(one, adjusted=False) for item, one in positive], family, widening)
    ratios = iter(zip(shared, plain, strict=True))
    differences = pool.share([item.difference(one) for item, one in zip(found, counted, strict=True)], family, widening)
    for item, one, difference in zip(found, counted, differences, strict=True):
        known = described(item.metric)
        empty = Comparison(
            item.arm[0], item.base[0], phase, item.metric, None, None, None, item.one.size, 0.0, None, None, None,
            NO_INTERVAL, item.arm[1], family=family if one else 1, unit=known.unit, better=known.better,
        )  # fmt: skip
        compared = _of_difference(empty, item.widen_difference(difference))
        yield _of_ratio(compared, item, *next(ratios)) if item.positive else compared


def _of_difference(empty: Comparison, centre: pool.Shared) -> Comparison:
    difference, together = centre.interval(), centre.interval_together()
    return replace(
        empty,
        difference=difference.estimate,
        difference_low=difference.low,
        difference_high=difference.high,
        difference_low_all=together.low,
        difference_high_all=together.high,
        verdict=_verdict(difference, 0.0),
        verdict_all=_verdict(together, 0.0),
    )


def _of_ratio(made: Comparison, pair: Paired, centre: pool.Shared, plain: pool.Shared) -> Comparison:
    centre = pair.widen(centre)
    ratio, together = stats.as_ratio(centre.interval()), stats.as_ratio(centre.interval_together())
    smallest = centre.detectable()
    return replace(
        made,
        ratio=ratio.estimate,
        low=ratio.low,
        high=ratio.high,
        detectable=None if smallest is None else stats.exp(smallest),
        verdict=_verdict(ratio, 1.0),
        low_all=together.low,
        high_all=together.high,
        verdict_all=_verdict(together, 1.0),
        covariate=pair.covariate,
        narrowing=1 - _width(centre) / _width(pair.with_copies(plain)) if pair.covariate and plain.error else None,
        adjusted=pair.adjusted(),
        untrimmed=pair.untrimmed(),
        spread=centre.spread,
        borrowed=centre.degrees - stats.own_degrees(centre.n),
    )


def _width(centre: Centre) -> float:
    return stats.student_quantile(0.5 + stats.CONFIDENCE / 2, centre.degrees) * (centre.error or 0.0)


def _verdict(interval: stats.Interval, neutral: float) -> str:
    """``more``, ``less`` or ``not detected`` where there is an interval, else ``no interval``."""
    if interval.low is None or interval.high is None:
        return NO_INTERVAL
    if not interval.leaves_out(neutral):
        return NOT_DETECTED
    return MORE if interval.low > neutral else LESS


def not_comparable(runs: Runs, baselines: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Why blocks were left out although both runs succeeded: one line per arm and digest that differs."""
    reasons = []
    for point in runs.points:
        for arm, baseline in baselines:
            shared = in_both(runs.blocks((arm, point)), runs.blocks((baseline, point)))
            if runs.common([(arm, point), (baseline, point)])[0].size == shared.size:
                continue
            theirs = {sample.block: sample for sample in runs.samples((baseline, point))}
            for sample in runs.samples((arm, point)):
                other = theirs.get(sample.block)
                keys = differing(sample.digests, other.digests) if other else ()
                if keys:
                    reasons.append(
                        f"{arm}, block {sample.block}: {', '.join(keys)} differs from {baseline}; not compared"
                    )
    return tuple(reasons)
