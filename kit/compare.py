"""Comparisons: each arm against its baseline, per phase and metric, with interval and verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kit import stats
from kit.sample import Sample

#: The metrics that are compared; the rest is kept in the samples.
METRICS = ("real", "user", "sys", "cgroup_user", "cgroup_sys", "elsewhere", "flush")


@dataclass(frozen=True)
class Comparison:
    """One arm against its baseline in one metric of one phase.

    ``ratio`` with ``low`` and ``high`` is the geometric mean of the within-block ratios and its 95 % interval, None
    where a block has a zero; ``difference`` (seconds per run) is the mean of the within-block differences with its
    own. ``n`` counts blocks. ``detectable`` is the smallest ratio that n such blocks would have shown.
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


def compare(samples: Iterable[Sample], baselines: Sequence[tuple[str, str]]) -> tuple[Comparison, ...]:
    """Compare measured samples in pairs (arm, baseline). Samples with different digests are not compared."""
    table = _by_arm(samples)
    found = []
    for arm, baseline in baselines:
        ours, theirs = table.get(arm, {}), table.get(baseline, {})
        blocks = sorted(block for block in ours if block in theirs and not _differing(ours[block], theirs[block]))
        for phase in _phases(ours[block] for block in blocks):
            for metric in METRICS:
                pairs = _pairs(ours, theirs, blocks, phase, metric)
                if pairs:
                    found.append(_compare_one(arm, baseline, phase, metric, pairs))
    return tuple(found)


def not_comparable(samples: Iterable[Sample], baselines: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Why blocks were left out although both runs succeeded: one line per arm and digest that differs."""
    table = _by_arm(samples)
    reasons = []
    for arm, baseline in baselines:
        ours, theirs = table.get(arm, {}), table.get(baseline, {})
        for block in sorted(set(ours) & set(theirs)):
            keys = _differing(ours[block], theirs[block])
            if keys:
                reasons.append(f"{arm}, block {block}: {', '.join(keys)} differs from {baseline}; not compared")
    return tuple(reasons)


def _by_arm(samples: Iterable[Sample]) -> dict[str, dict[int, Sample]]:
    table: dict[str, dict[int, Sample]] = {}
    for sample in samples:
        if sample.kind != "warmup" and sample.status == "ok":
            table.setdefault(sample.arm, {})[sample.block] = sample
    return table


def _differing(one: Sample, other: Sample) -> list[str]:
    """Digests that both have and that differ; ``host`` has no image, which the report flags."""
    here, there = dict(one.digests), dict(other.digests)
    return sorted(key for key in here.keys() & there.keys() if here[key] != there[key])


def _phases(samples: Iterable[Sample]) -> list[str]:
    names: dict[str, None] = {}
    for sample in samples:
        names.update((phase.name, None) for phase in sample.with_total())
    return list(names)


def _pairs(
    ours: Mapping[int, Sample], theirs: Mapping[int, Sample], blocks: Sequence[int], phase: str, metric: str
) -> list[tuple[float, float]]:
    pairs = []
    for block in blocks:
        one, other = _value(ours[block], phase, metric), _value(theirs[block], phase, metric)
        if one is not None and other is not None:
            pairs.append((one, other))
    return pairs


def _value(sample: Sample, phase: str, metric: str) -> float | None:
    for item in sample.with_total():
        if item.name == phase:
            return item.metric(metric)
    return None


def _compare_one(arm: str, baseline: str, phase: str, metric: str, pairs: Sequence[tuple[float, float]]) -> Comparison:
    difference = stats.paired_difference(pairs)
    ratio = None
    detectable = None
    if all(one > 0 and other > 0 for one, other in pairs):
        ratio = stats.paired_ratio(pairs)
        detectable = stats.detectable_ratio(pairs)
    return Comparison(
        arm,
        baseline,
        phase,
        metric,
        ratio.estimate if ratio else None,
        ratio.low if ratio else None,
        ratio.high if ratio else None,
        len(pairs),
        difference.estimate,
        difference.low,
        difference.high,
        detectable,
        _verdict(ratio or difference, 1.0 if ratio else 0.0),
    )


def _verdict(interval: stats.Interval, neutral: float) -> str:
    """``more``, ``less`` or ``not detected`` where there is an interval, else ``no interval``."""
    if interval.low is None or interval.high is None:
        return "no interval"
    if interval.low > neutral:
        return "more"
    return "less" if interval.high < neutral else "not detected"
