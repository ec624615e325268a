"""Is an arm slower than its baseline? The answer of a sequential test, after any number of rounds. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kit.analysis.runs.paired import pair_up
from kit.analysis.runs.run_table import Runs
from kit.analysis.session.ranking import DURABLE, REAL, measured
from kit.analysis.stats.estimators import CONFIDENCE, as_ratio, mean_centre
from kit.analysis.stats.sequential import sequential_interval
from kit.model.plan import SlowdownTest
from kit.model.sample import Sample

SLOWER, NOT_SLOWER, UNDECIDED = "slower", "not slower", "undecided"


@dataclass(frozen=True)
class Slowdown:
    """Time of the whole run, arm against baseline. ``low``, ``high``: an interval of the ratio that holds with 95 % at
    any look. ``rounds``: how many have both. ``metric``: durable or real; '' without figures."""

    verdict: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    metric: str = ""


def judge_slowdown(samples: Iterable[Sample], arm: str, baseline: str, test: SlowdownTest) -> Slowdown:
    """Return ``slower`` if the ratio is shown to be above 1, ``not slower`` if it is shown to be below 1 + threshold,
    by an end of an interval each. If both are shown, the nearer one. The metric is the ranking's default.

    At most one of the two can be wrong of any true ratio. So each end may err with the whole probability. Disturbed
    runs count: a verdict must not change once the session has ended."""
    runs = Runs(samples, repetitions=False)
    keys = (arm, ""), (baseline, "")
    if not all(map(runs.has, keys)):
        return Slowdown(UNDECIDED)
    phase = runs.phases(keys)[-1]
    metric = DURABLE if measured(runs, keys, phase, DURABLE) else REAL
    pairs = pair_up(runs, keys, phase, metric)
    if pairs is None or not pairs.positive:
        return Slowdown(UNDECIDED)
    centre = mean_centre(pairs.logs)
    ends = sequential_interval(centre, test.error, pairs.copies)
    found = as_ratio(sequential_interval(centre, (1 - CONFIDENCE) / 2, pairs.copies))
    limit = math.log1p(test.threshold)
    slower, faster = ends.low is not None and ends.low > 0, ends.high is not None and ends.high < limit
    verdict = UNDECIDED
    if slower or faster:
        verdict = SLOWER if slower and (not faster or centre.estimate >= limit / 2) else NOT_SLOWER
    return Slowdown(verdict, found.estimate, found.low, found.high, centre.n, metric)
