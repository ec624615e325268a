"""Comparisons: each arm against its baseline, per phase and metric, with interval and verdict. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kit import stats
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
    names what the ratio is adjusted for, and ``narrowing`` the share by which that made its interval narrower.
    ``point`` holds the values of swept parameters. ``metric`` is one of METRICS, or a figure that the workload reports
    of itself, with its ``unit``; ``better`` says whether ``less`` or ``more`` of it is.
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
    """All arms at one point; those with one baseline share what is known of the noise."""
    for base in dict.fromkeys(base for _, base in pairs):
        arms = [arm for arm, other in pairs if other == base]
        adjusting = _find_adjusting(runs, [base, *arms], phase, metric) if metric in _SPEED else None
        for arm in arms:
            ours, theirs = runs.common([arm, base])
            one, other = runs.values(arm, phase, metric)[ours], runs.values(base, phase, metric)[theirs]
            both = np.isfinite(one) & np.isfinite(other)
            if not both.any():
                continue
            moved = None
            if adjusting is not None:
                name, covariate = adjusting
                away = _covariate(runs, arm, name)[ours] - _covariate(runs, base, name)[theirs]
                moved = _Moved(name, covariate, away[both])
            made = Comparison(
                arm[0], base[0], phase, metric, None, None, None, int(both.sum()), 0.0, None, None, None, NO_INTERVAL,
                arm[1], family=1 if is_control(arm[0]) else family,
            )  # fmt: skip
            yield _compare_one(made, one[both], other[both], moved)


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


def _compare_one(empty: Comparison, one: Floats, other: Floats, moved: _Moved | None) -> Comparison:
    difference = stats.mean_interval(one - other)
    wide = stats.family_confidence(empty.family)
    made = replace(
        empty,
        difference=difference.estimate,
        difference_low=difference.low,
        difference_high=difference.high,
        verdict=_verdict(difference, 0.0),
        verdict_all=_verdict(stats.mean_interval(one - other, wide), 0.0),
    )
    if not ((one > 0) & (other > 0)).all():
        return made
    centre, narrowing = _centre(np.log(one / other), moved)
    ratio, together = stats.as_ratio(centre.interval()), stats.as_ratio(centre.interval(wide))
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
    )


def _centre(logs: Floats, moved: _Moved | None) -> tuple[Centre, float | None]:
    plain = stats.robust_centre(logs)
    if moved is None:
        return plain, None
    adjusted = stats.robust_centre(logs - moved.covariate.slope * moved.away)
    centre = moved.covariate.adjust(logs, moved.away, adjusted)
    return centre, 1 - _width(centre) / _width(plain) if plain.error else None


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
