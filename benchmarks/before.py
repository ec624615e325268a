"""The method before 0.6, in which each comparison had its own variance alone: to be held against that of now."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kit.analysis import stats
from kit.analysis.columns import Runs
from kit.analysis.compare import Comparison


@dataclass(frozen=True)
class Before:
    """Of logarithms of ratios: the centre, its 95 % interval alone, and Bonferroni's for all of a family."""

    centre: stats.Centre
    alone: stats.Interval
    together: stats.Interval


def by_itself(runs: Runs, item: Comparison, family: int) -> Before:
    keys = [(item.arm, ""), (item.baseline, "")]
    ours, theirs = runs.common(keys)
    logs = np.log(runs.values(keys[0], item.phase, "real")[ours] / runs.values(keys[1], item.phase, "real")[theirs])
    centre = stats.robust_centre(logs)
    return Before(centre, centre.interval(), centre.interval(stats.family_confidence(family)))
