"""How often ``kit nightly`` cries wolf, and how soon it sees a change.

    python benchmarks/proofs/nightly.py [--series 300]

Nights of one penalty with normal noise from night to night, independent, or each taking after the last (AR(1) of 0.3
and 0.6); thresholds are set low enough that the history alone decides, which is the worst case: in use the
within-session interval has to cross the limit as well. Printed for each
number of sessions that a change needs: the share of series of 60 nights, without any change, in which some night would
have been called a regression; and for a change of 1 to 5 standard deviations of that noise after 20 nights the share
that is found within the next 20, and the median number of nights until then. Beside it the same for the naive rule that
compares each night with the mean of the nights before it at two standard deviations. At the end: how often the 95 %
interval of a step of five standard deviations, where it is found, contains the truth, and how wide it is; beside it
Welch's t interval, which takes nights for independent.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from kit.analysis.runs.compare import Comparison
from kit.analysis.session.entry import Conditions, Entry
from kit.analysis.session.outcome import Outcome
from kit.analysis.stats import estimators
from kit.analysis.stats.estimate import Interval
from kit.analysis.stats.estimators import Floats
from kit.extra.history.analysis.changepoint import find_changes
from kit.extra.history.analysis.series import Series

Alarm = Callable[[Floats, int], int | None]

DEPENDENCES = (0.0, 0.3, 0.6)
NIGHTS, BEFORE, AFTER, LEVEL, NOISE = 60, 20, 20, 1.05, 0.02
_EMPTY = Comparison("layer", "bare", "total", "real", 1.0, None, None, 5, 0.0, None, None, None, "no interval")


def entries(ratios: Floats) -> tuple[Entry, ...]:
    return tuple(
        Entry(str(i), float(i), "", "", Conditions(), Outcome(replace(_EMPTY, ratio=float(ratio)), 1.0, 1.0, True, ()))
        for i, ratio in enumerate(ratios)
    )


def kit_alarm(confirm: int, ratios: Floats, start: int) -> int | None:
    """The first night, counted from 1, at which a confirmed rise stands in the history."""
    listed = entries(ratios)
    for night in range(start, len(listed) + 1):
        changes = find_changes(Series(listed[:night]), confirm)
        if any(change.up and change.confirmed for change in changes):
            return night
    return None


def naive_alarm(ratios: Floats, start: int) -> int | None:
    for night in range(max(start, 5), len(ratios) + 1):
        past = ratios[: night - 1]
        if ratios[night - 1] > past.mean() + 2 * past.std(ddof=1):
            return night
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=300, help="3 at least")
    count = parser.parse_args().series
    for dependence in DEPENDENCES:
        report(count, dependence)
    print(f"\n{'95 % interval of a step':34}{'holds':>8}{'width':>8}{'Welch':>10}{'width':>8}")
    for dependence in DEPENDENCES:
        for before, after in ((20, 20), (20, 5), (40, 3)):
            print(coverage(count, dependence, before, after))


def nights(count: int, dependence: float) -> Floats:
    """Series of nights of which each takes after the last (AR(1)), all of the same spread."""
    dice = np.random.default_rng(20261121)
    values = dice.normal(0, 1, (count, NIGHTS))
    for night in range(1, NIGHTS):
        values[:, night] = dependence * values[:, night - 1] + (1 - dependence**2) ** 0.5 * values[:, night]
    series: Floats = LEVEL + NOISE * values
    return series


def coverage(count: int, dependence: float, before: int, after: int) -> str:
    step, held, welch = math.log1p(5 * NOISE / LEVEL), [], []
    for series in nights(count, dependence)[:, : before + after]:
        moved = series.copy()
        moved[before:] *= math.exp(step)
        changes = [item for item in find_changes(Series(entries(moved))) if item.index == before]
        old = estimators.welch_ratio(np.log(moved[:before]), np.log(moved[before:]))
        for item in changes[:1]:
            held.append(_contains(item.shift, step))
            welch.append(_contains(old, step))
    name = f"AR(1) {dependence}, nights {before} + {after}, {len(held)} found"
    cells = [f"{np.mean([one for one, _ in part]):.1%} {np.median([two for _, two in part]):.2%}"
             for part in (held, welch) if part]  # fmt: skip
    return f"{name:34}{'  '.join(cells):>30}"


def _contains(found: Interval | None, truth: float) -> tuple[bool, float]:
    """Whether it does, and its width; of ratios."""
    assert found and found.low and found.high
    return not found.leaves_out(math.exp(truth)), found.high - found.low


def report(count: int, dependence: float) -> None:
    quiet = nights(count, dependence)
    rules: dict[str, Alarm] = {f"confirm = {n}": partial(kit_alarm, n) for n in (2, 3, 4)}
    rules["2 standard deviations"] = naive_alarm
    steps = (1, 2, 3, 5)
    print(f"\nAR(1) {dependence}: {count} series, {NIGHTS} nights without a change; then a step after {BEFORE} nights")
    print(f"{'rule':24}{'false alarm':>12}" + "".join(f"{f'step {step} sd':>20}" for step in steps))
    for name, alarm in rules.items():
        false = sum(alarm(series, 1) is not None for series in quiet) / count
        cells = []
        for step in steps:
            found = []
            for series in quiet[: count // 3, : BEFORE + AFTER]:
                moved = series.copy()
                moved[BEFORE:] += step * NOISE
                night = alarm(moved, BEFORE + 1)
                if night is not None:
                    found.append(night - BEFORE)
            share = len(found) / (count // 3)
            cells.append(f"{share:.0%} in {statistics.median(found):.0f} nights" if found else "0%")
        print(f"{name:24}{false:>12.1%}" + "".join(f"{cell:>20}" for cell in cells))


if __name__ == "__main__":
    main()
