"""Comparisons: each arm against its baseline, per phase and metric, with interval and verdict. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kit import pool, stats
from kit.arm import CONTROL
from kit.runs import Key, Runs, differing
from kit.sample import Sample
from kit.stats import Centre, Covariate, Floats

#: The metrics that are compared; the rest is kept in the samples.
METRICS = (
    "real", "user", "sys", "cgroup_user", "cgroup_sys", "cpu", "elsewhere", "cpu_total", "flush", "whole",
)  # fmt: skip
#: Metrics whose noise may come from the speed of the machine.
_SPEED = {"real", "user", "sys", "cgroup_user", "cgroup_sys", "cpu", "cpu_total", "whole"}
#: Metrics whose noise is the arm's own: that of a daemon, or of what is left to write.
_OWN_NOISE = {"elsewhere", "flush"}
#: What is tried as covariate, on a logarithmic scale: the spins before and after a run (of arithmetic and of memory),
#: and CPU stolen during it. None of them can be an effect of the arm.
COVARIATES = ("calibration", "memory", "steal")

MORE, LESS, NOT_DETECTED, NO_INTERVAL = "more", "less", "not detected", "no interval"


@dataclass(frozen=True, repr=False)
class Comparison:
    """One arm against its baseline in one metric of one phase.

    ``ratio`` with ``low`` and ``high`` is the geometric mean of the within-block ratios and its 95 % interval, None
    where a block has a zero; ``difference`` (seconds per run) is the mean of the within-block differences with its
    own. ``n`` counts blocks. ``detectable`` is the smallest ratio that n such blocks would have shown.

    ``low_all`` and ``high_all`` belong to intervals of which all ``family`` comparisons of this phase and metric hold
    at once with 95 %. ``verdict`` is that of the interval alone, ``verdict_all`` that of the wider one. ``covariate``
    names what the ratio is adjusted for, ``narrowing`` the share by which that made its interval narrower, and
    ``adjusted`` is the arm's mean in seconds, had the covariate been in its runs what it was in the baseline's.
    ``point`` holds the values of swept parameters. ``metric`` is one of METRICS, or a figure that the workload reports
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

    def rounds_for(self, reach: float) -> int | None:
        """About how many rounds would bring the interval to ±``reach`` of the ratio. None where that can't be told."""
        return pool.rounds_needed(self.spread, self.borrowed, math.log1p(reach)) if self.spread else None

    def rounds_to_tell(self, limit: float) -> int | None:
        """About how many rounds would tell the ratio from ``limit``, should it stay."""
        if not self.spread or not self.ratio or self.ratio == limit:
            return None
        return pool.rounds_needed(self.spread, self.borrowed, abs(math.log(self.ratio / limit)))

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
    metrics: Sequence[str] = METRICS,
    whole: bool = False,
) -> tuple[Comparison, ...]:
    """Compare measured samples in pairs (arm, baseline). Samples with different digests are not compared.

    ``whole``: only the whole run (the total, where there are several phases), not each phase.
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
                found += _compare_point(runs, here, phase, metric, family)
            for name, figure in ({} if whole else runs.reported(keys, phase)).items():
                made = _compare_point(runs, here, phase, name, family)
                found += [replace(item, unit=figure.unit, better=figure.better) for item in made]
    return tuple(found)


def _compare_point(
    runs: Runs, pairs: Sequence[tuple[Key, Key]], phase: str, metric: str, family: int
) -> Iterator[Comparison]:
    """All arms at one point: they share what is known of the noise."""
    found = []
    for base in dict.fromkeys(base for _, base in pairs):
        arms = [arm for arm, other in pairs if other == base]
        adjusting = _find_adjusting(runs, [base, *arms], phase, metric) if metric in _SPEED else None
        for arm in arms:
            blocks = _find_blocks(runs, (arm, base), phase, metric, adjusting)
            if blocks is not None:
                found.append(blocks)
    differences = pool.share([item.difference(metric) for item in found], family)
    positive = [item for item in found if item.positive]
    shared = pool.share([item.ratio(metric) for item in positive], family)
    moved = any(item.moved for item in positive)
    ratios = iter(shared)
    plain = iter(pool.share([item.ratio(metric, False) for item in positive], family) if moved else shared)
    for item, difference in zip(found, differences, strict=True):
        empty = Comparison(
            item.arm[0], item.base[0], phase, metric, None, None, None, item.one.size, 0.0, None, None, None,
            NO_INTERVAL, item.arm[1], family=1 if is_control(item.arm[0]) else family,
        )  # fmt: skip
        made = _of_difference(empty, difference)
        yield _of_ratio(made, item, next(ratios), next(plain)) if item.positive else made


@dataclass(frozen=True)
class _Blocks:
    """The runs of an arm and of its baseline in the blocks that hold both."""

    arm: Key
    base: Key
    one: Floats
    other: Floats
    moved: _Moved | None

    @property
    def positive(self) -> bool:
        return bool(((self.one > 0) & (self.other > 0)).all())

    def difference(self, metric: str) -> pool.Contrast:
        centre = stats.mean_centre(self.one - self.other)
        alike = abs(centre.estimate) <= (pool.NEAR - 1) * float(self.other.mean())
        return self._contrast(centre, metric, alike)

    def ratio(self, metric: str, adjusted: bool = True) -> pool.Contrast:
        logs = np.log(self.one / self.other)
        moved = self.moved if adjusted else None
        centre = moved.covariate.centre(logs, moved.away) if moved else stats.robust_centre(logs)
        return self._contrast(centre, metric, pool.near(centre.estimate))

    def _contrast(self, centre: Centre, metric: str, alike: bool) -> pool.Contrast:
        counted = not is_control(self.arm[0])
        return pool.Contrast((self.arm[0], self.base[0]), centre, alike and metric not in _OWN_NOISE, counted)


def _find_blocks(
    runs: Runs, keys: tuple[Key, Key], phase: str, metric: str, adjusting: tuple[str, Covariate] | None
) -> _Blocks | None:
    ours, theirs = runs.common(keys)
    one, other = runs.values(keys[0], phase, metric)[ours], runs.values(keys[1], phase, metric)[theirs]
    both = np.isfinite(one) & np.isfinite(other)
    if not both.any():
        return None
    moved = None
    if adjusting is not None:
        name, covariate = adjusting
        away = _covariate(runs, keys[0], name)[ours] - _covariate(runs, keys[1], name)[theirs]
        moved = _Moved(name, covariate, away[both])
    return _Blocks(*keys, one[both], other[both], moved)


@dataclass(frozen=True)
class _Moved:
    """By how much the covariate differed between the two runs of each block."""

    name: str
    covariate: Covariate
    away: Floats


def _find_adjusting(runs: Runs, keys: Sequence[Key], phase: str, metric: str) -> tuple[str, Covariate] | None:
    """The covariate that explains most of the noise of these arms, if one is of use."""
    places = runs.common(keys)
    y = np.array([runs.values(key, phase, metric)[place] for key, place in zip(keys, places, strict=True)]).T
    if y.shape[0] < 3 or not (np.isfinite(y) & (y > 0)).all():
        return None
    y = stats.residuals(np.log(y))
    best: tuple[str, Covariate] | None = None
    for name in COVARIATES:
        x = runs.once(_covariate_residuals, runs, tuple(keys), name)
        found = stats.find_covariate(y, x) if np.isfinite(x).all() else None
        if found and (best is None or found.variance_left < best[1].variance_left):
            best = (name, found)
    return best


def _covariate_residuals(runs: Runs, keys: Sequence[Key], name: str) -> Floats:
    places = runs.common(keys)
    x = [_covariate(runs, key, name)[place] for key, place in zip(keys, places, strict=True)]
    return stats.residuals(np.array(x).T)


def _covariate(runs: Runs, key: Key, name: str) -> Floats:
    if name == "steal":
        phase = runs.phases([key])[-1]
        share: Floats = np.log1p(runs.values(key, phase, "steal") / runs.values(key, phase, "real"))
        return share
    spins = np.log(runs.attribute(key, f"{name}_before")) + np.log(runs.attribute(key, f"{name}_after"))
    half: Floats = spins / 2
    return half


def _of_difference(empty: Comparison, centre: pool.Shared) -> Comparison:
    difference = centre.interval()
    return replace(
        empty,
        difference=difference.estimate,
        difference_low=difference.low,
        difference_high=difference.high,
        verdict=_verdict(difference, 0.0),
        verdict_all=_verdict(centre.interval_together(), 0.0),
    )


def _of_ratio(made: Comparison, blocks: _Blocks, centre: pool.Shared, plain: Centre) -> Comparison:
    moved = blocks.moved
    narrowing = None
    if moved is not None:
        centre = moved.covariate.widen(centre, moved.away)
        narrowing = 1 - _width(centre) / _width(plain) if plain.error else None
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
        covariate=moved.name if moved else "",
        narrowing=narrowing,
        adjusted=float((blocks.one * np.exp(-moved.covariate.slope * moved.away)).mean()) if moved else None,
        untrimmed=_untrimmed(blocks) if centre.n >= stats.ROBUST_FROM else None,
        spread=centre.spread,
        borrowed=centre.degrees - stats.own_degrees(centre.n),
    )


def _untrimmed(blocks: _Blocks) -> float:
    logs = np.log(blocks.one / blocks.other)
    moved = blocks.moved
    return stats.exp(float((logs - moved.covariate.slope * moved.away if moved else logs).mean()))


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
            shared = np.intersect1d(runs.blocks((arm, point)), runs.blocks((baseline, point)), assume_unique=True)
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
