"""Comparisons: each arm against its baseline, per phase and metric, with interval and verdict. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from kit.analysis.runs.paired import Paired, Unpaired, find_adjusting, pair_up
from kit.analysis.runs.run_table import Key, Runs, differing
from kit.analysis.stats import estimators, variance_pooling
from kit.analysis.stats.estimate import NO_INTERVAL, Estimate, Interval, Verdict, as_ratio, exp, visible_ratio
from kit.analysis.stats.estimators import Centre
from kit.model.arm import CONTROL
from kit.model.metric import COMPARED, described
from kit.model.sample import Sample


@dataclass(frozen=True, repr=False)
class Comparison:
    """One arm against its baseline in one metric of one phase.

    From ROBUST_FROM rounds on the ratio is the typical one, the mean without a tenth at either end. A simultaneous
    interval is that of all ``family`` comparisons of this phase and metric."""

    arm: str
    baseline: str
    phase: str
    metric: str  # one of COMPARED, or a figure that the workload reports
    ratio: float | None  # geometric mean of the within-round ratios; None if a round has a zero
    low: float | None  # individual 95 % interval of the ratio: low to high
    high: float | None
    n: int  # number of rounds; of unpaired runs the smaller number of runs
    #: Mean of the within-round differences, in seconds per run, with its individual 95 % interval.
    difference: float
    difference_low: float | None
    difference_high: float | None
    #: The smallest ratio that n such rounds would have shown with 80 % power.
    detectable: float | None
    verdict: Verdict  # by the individual interval
    point: str = ""  # values of swept parameters
    low_all: float | None = None  # simultaneous 95 % interval of the ratio: low_all to high_all
    high_all: float | None = None
    family: int = 1  # number of comparisons that the simultaneous interval allows for
    verdict_all: Verdict = NO_INTERVAL  # by the simultaneous interval
    covariate: str = ""  # what the ratio is adjusted for
    narrowing: float | None = None  # the share by which the covariate narrows the ratio's interval
    unit: str = "s"
    better: str = "less"  # ``less`` or ``more``
    adjusted: float | None = None  # the arm's mean in seconds at the baseline's covariate
    untrimmed: float | None = None  # the ratio of all rounds, where the ratio is a trimmed mean
    spread: float | None = None  # standard error of one round's log ratio
    borrowed: int = 0  # degrees of freedom beyond its own, from the noise that arms share
    difference_low_all: float | None = None  # simultaneous 95 % interval of the difference
    difference_high_all: float | None = None
    # A history does not store the others, so they do not count where its outcomes are compared.
    #: Simultaneous 90 % interval, of two one-sided tests: low_bound to high_bound.
    low_bound: float | None = field(default=None, compare=False)
    high_bound: float | None = field(default=None, compare=False)
    #: Standard error of what no number of rounds removes.
    copies: float = field(default=0.0, compare=False)
    #: Runs of each are an independent sample; ratio and difference are those of two means.
    unpaired: bool = field(default=False, compare=False)
    #: The ratio that bounds the control in the same metric, phase and point; 1 without a control.
    visible: float = field(default=1.0, compare=False)

    def __repr__(self) -> str:
        """For assertions of tests: what was compared, the ratio, its interval."""
        at = f" at {self.point}" if self.point else ""
        what = f"{self.arm} / {self.baseline}{at}, {self.metric} of {self.phase}"
        if self.ratio is None:
            return f"<{what}: no ratio, {self.difference:+.4g} {self.unit}>"
        interval = "no interval" if self.low is None or self.high is None else f"{self.low:.3f}–{self.high:.3f}"
        return f"<{what}: {self.ratio:.3f} ({interval}), {self.n} {'unpaired runs' if self.unpaired else 'rounds'}>"

    @property
    def control(self) -> bool:
        return is_control(self.arm)

    @property
    def estimate(self) -> Estimate | None:
        """Return the ratio with its intervals. A stored one has no interval of one-sided tests: the wider one of
        ``verdict_all`` decides."""
        if self.ratio is None:
            return None
        together, bounded = (
            Interval(self.ratio, *ends, self.n)
            for ends in ((self.low_all, self.high_all), (self.low_bound, self.high_bound))
        )
        tests = None if bounded.low is None else bounded
        return Estimate(self.ratio, self.low, self.high, self.n, together, tests, self.visible)

    @property
    def together(self) -> Interval | None:
        """Return the ratio with its simultaneous interval."""
        return self.estimate and self.estimate.together

    @property
    def outliers(self) -> bool:
        """Return whether the mean of all rounds lies outside the typical ratio's interval: a few runs cause the
        difference."""
        ratio, untrimmed = self.estimate, self.untrimmed
        return ratio is not None and untrimmed is not None and ratio.leaves_out(untrimmed)

    def equivalent(self, margin: float) -> bool:
        """Return whether the comparison shows a ratio within the margin."""
        return self.estimate is not None and self.estimate.equivalent(margin)

    @property
    def centre(self) -> Centre | None:
        """Return the centre of the ratio's logarithm, with the error and degrees of freedom of its interval."""
        return estimators.log_centre(self.estimate, estimators.own_degrees(self.n) + self.borrowed)

    def rounds_to_tell(self, limit: float) -> tuple[int, int, int] | None:
        """Return how many rounds would distinguish the ratio from ``limit``, if the ratio stays: few, typical and many,
        a range of 80 %. None if unknown, or if no number would: the difference of copies lasts all rounds."""
        if not self.spread or not self.ratio:
            return None
        lasting = self.copies * estimators.student_quantile(0.5 + estimators.CONFIDENCE / 2, variance_pooling.MANY)
        square = math.log(self.ratio / limit) ** 2 - lasting**2
        if square <= 0:
            return None
        smaller, larger = estimators.spread_range(estimators.own_degrees(self.n) + self.borrowed)
        needed = [
            variance_pooling.rounds_needed(self.spread * factor, self.borrowed, math.sqrt(square))
            for factor in (smaller, 1.0, larger)
        ]
        few, typical, many = needed
        return None if few is None or typical is None or many is None else (few, typical, many)

    def low_among(self, family: int) -> float | None:
        """Return the one-sided 95 % lower bound of the ratio, simultaneous with ``family`` - 1 other bounds
        (Bonferroni)."""
        if self.centre is None:
            return None
        return as_ratio(self.centre.interval(estimators.family_confidence(family, 2 * estimators.CONFIDENCE - 1))).low

    @property
    def reach(self) -> float:
        """Return the margin from the ratio to its interval's end, as a share of the ratio; infinite without an
        interval."""
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
    looks: int = 0,
) -> tuple[Comparison, ...]:
    """Compare measured samples in pairs (arm, baseline). Samples with different digests are not compared.

    ``whole``: only the whole run (the total of several phases), not each phase. ``looks``: rounds after which a
    session that chose its own end has looked at its answer; 0 for one whose number of rounds was fixed."""
    runs = samples if isinstance(samples, Runs) else Runs(samples)
    pairs = [
        ((arm, point), (base, point))
        for point in runs.points
        for arm, base in baselines
        if runs.has((arm, point)) and runs.has((base, point))
    ]
    family = sum(not is_control(arm) for (arm, _), _ in pairs)
    comparisons: list[Comparison] = []
    for point in runs.points:
        here = [pair for pair in pairs if pair[0][1] == point]
        keys = list(dict.fromkeys(key for pair in here for key in pair))
        for phase in runs.phases(keys)[-1 if whole else 0 :]:
            for metric in metrics:
                comparisons += _compare_point(runs, here, phase, metric, family, looks)
            for name, figure in ({} if whole else runs.reported(keys, phase)).items():
                reported = _compare_point(runs, here, phase, name, family, looks)
                comparisons += [replace(comparison, unit=figure.unit, better=figure.better) for comparison in reported]
    return tuple(comparisons)


def _compare_point(
    runs: Runs, pairs: Sequence[tuple[Key, Key]], phase: str, metric: str, family: int, looks: int
) -> Iterator[Comparison]:
    """Compare all arms at one point: they share the estimate of the noise."""
    keys = list(dict.fromkeys(key for pair in pairs for key in pair))
    adjusting = find_adjusting(runs, keys, phase, metric)
    paired = [matched for pair in pairs if (matched := pair_up(runs, pair, phase, metric, adjusting))]
    return compare_paired(paired, phase, family, looks)


def compare_paired(paired: Sequence[Paired], phase: str, family: int, looks: int = 0) -> Iterator[Comparison]:
    """Compare arms by one metric known for each round: they share the estimate of the noise. Intervals are simultaneous
    with all ``family`` comparisons."""
    compared = list(_compare_paired(paired, phase, family, looks))
    visible = max((visible_in(comparison) for comparison in compared if comparison.control), default=1.0)
    return iter([replace(comparison, visible=visible) for comparison in compared])


def visible_in(control: Comparison) -> float:
    return visible_ratio(Interval(control.ratio or 0.0, control.low_bound, control.high_bound, control.n))


def _compare_paired(paired: Sequence[Paired], phase: str, family: int, looks: int) -> Iterator[Comparison]:
    counted = [not is_control(pair.arm[0]) for pair in paired]
    positive = [(pair, counts) for pair, counts in zip(paired, counted, strict=True) if pair.positive]
    shared = variance_pooling.share([pair.ratio(counts) for pair, counts in positive], family, looks)
    plain = shared
    if any(pair.adjusting for pair in paired):
        plain = variance_pooling.share([pair.ratio(counts, adjusted=False) for pair, counts in positive], family, looks)
    ratios = iter(zip(shared, plain, strict=True))
    proportional = len(positive) == len(paired)
    contrasts = [pair.difference(counts, proportional) for pair, counts in zip(paired, counted, strict=True)]
    differences = variance_pooling.share(contrasts, family, looks)
    for pair, counts, difference in zip(paired, counted, differences, strict=True):
        metric = described(pair.metric)
        empty = Comparison(
            pair.arm[0], pair.base[0], phase, pair.metric, None, None, None,
            min(pair.arm_values.size, pair.base_values.size), 0.0, None, None, None, NO_INTERVAL, pair.arm[1],
            family=family if counts else 1, unit=metric.unit, better=metric.better,
            unpaired=isinstance(pair, Unpaired),
        )  # fmt: skip
        compared = _of_difference(empty, pair.widen_difference(difference))
        yield _of_ratio(compared, pair, *next(ratios)) if pair.positive else compared


def _of_difference(empty: Comparison, centre: variance_pooling.PooledEstimate) -> Comparison:
    difference = centre.estimated()
    return replace(
        empty,
        difference=difference.estimate,
        difference_low=difference.low,
        difference_high=difference.high,
        difference_low_all=difference.together.low,
        difference_high_all=difference.together.high,
        verdict=difference.verdict,
        verdict_all=difference.together.beside(0.0),
    )


def _of_ratio(
    comparison: Comparison,
    pair: Paired,
    centre: variance_pooling.PooledEstimate,
    plain: variance_pooling.PooledEstimate,
) -> Comparison:
    centre = pair.widen(centre)
    ratio = as_ratio(centre.estimated())
    bounded = ratio.bounded or ratio.together
    smallest = centre.detectable()
    return replace(
        comparison,
        ratio=ratio.estimate,
        low=ratio.low,
        high=ratio.high,
        detectable=None if smallest is None else exp(smallest),
        verdict=ratio.verdict,
        low_all=ratio.together.low,
        high_all=ratio.together.high,
        verdict_all=ratio.together.beside(1.0),
        covariate=pair.covariate,
        narrowing=1 - _width(centre) / _width(pair.with_copies(plain)) if pair.covariate and plain.error else None,
        adjusted=pair.adjusted(),
        untrimmed=pair.untrimmed(),
        spread=None if comparison.unpaired else centre.spread,
        borrowed=centre.degrees - estimators.own_degrees(centre.n),
        low_bound=bounded.low,
        high_bound=bounded.high,
        copies=pair.copies,
    )


def _width(centre: Centre) -> float:
    return estimators.student_quantile(0.5 + estimators.CONFIDENCE / 2, centre.degrees) * (centre.error or 0.0)


def not_comparable(runs: Runs, baselines: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return why rounds were left out although both runs succeeded: one line per arm and differing digest."""
    reasons = []
    for point in () if runs.unpaired else runs.points:
        for arm, baseline in baselines:
            shared = runs.shared_rounds([(arm, point), (baseline, point)])
            if runs.common([(arm, point), (baseline, point)])[0].size == shared.size:
                continue
            theirs = {sample.round: sample for sample in runs.samples((baseline, point))}
            for sample in runs.samples((arm, point)):
                other = theirs.get(sample.round)
                keys = differing(sample.digests, other.digests) if other else ()
                if keys:
                    reasons.append(
                        f"{arm}, round {sample.round}: {', '.join(keys)} differs from {baseline}; not compared"
                    )
    return tuple(reasons)
