"""A stored session by the method before, in which each comparison had its own variance alone, and by that of now.

    python benchmarks/methods.py [SESSION …]    the last one where none is named

The same samples, the whole run's real time, each arm against its own baseline. Printed for each: the ratio; half the
95 % interval alone and all at once, before and now, as a share of the ratio; how large a cost is said to be detectable
with 80 % power (before: by one interval at a time, as it was printed); the verdict of all at once, and the place in the
ranking: before, by the ratio to its own baseline, now, by what it takes against one reference for all.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from before import Before, by_itself
from tabulate import tabulate

from kit.analysis import stats
from kit.analysis.analyse import Analysis, analyse
from kit.analysis.columns import Runs
from kit.analysis.compare import LESS, MORE, NOT_DETECTED, compare
from kit.core.paths import find_paths
from kit.model.session import Session
from kit.store import open_store

HEADERS = (
    "arm", "ratio", "alone\nbefore", "\nnow", "all\nbefore", "\nnow", "sees ≥\nbefore", "\nnow", "verdict\nbefore",
    "\nnow", "rank\nbefore", "\nnow",
)  # fmt: skip


def seen(found: Before) -> float:
    """The log ratio that is found with 80 % power, by the interval alone."""
    quantiles = (stats.student_quantile(p, found.centre.degrees) for p in (0.975, 0.8))
    return sum(quantiles) * (found.centre.error or math.nan)


def half(interval: stats.Interval) -> float:
    return math.expm1((interval.high - interval.low) / 2) if interval.low is not None and interval.high else math.nan


def rows(session: Session, analysis: Analysis) -> list[Sequence[str]]:
    runs = Runs(session.samples)
    found = [item for item in compare(runs, session.baselines, ("real",), whole=True) if not item.control]
    before = {item.arm: by_itself(runs, item, len(found)) for item in found}
    order = sorted(before, key=lambda arm: before[arm].centre.estimate)
    ranked = {
        row.arm: f"{row.rank_low}–{row.rank_high} {row.group}"
        for ranking in analysis.rankings[:1]
        for row in ranking.rows
        if row.pick
    }
    made: list[Sequence[str]] = []
    for item in found:
        own = before[item.arm]
        words = MORE if (own.together.low or 0) > 0 else LESS if (own.together.high or 0) < 0 else NOT_DETECTED
        now = [stats.Interval(0.0, math.log(low or 1), math.log(high or 1), item.n)
               for low, high in ((item.low, item.high), (item.low_all, item.high_all))]  # fmt: skip
        sees = (math.expm1(seen(own)), (item.detectable or 1) - 1)
        figures = (half(own.alone), half(now[0]), half(own.together), half(now[1]), *sees)
        made.append((item.arm, f"{item.ratio or math.nan:.3f}", *(f"{100 * value:.1f} %" for value in figures),
                     words, item.verdict_all, str(order.index(item.arm) + 1), ranked.get(item.arm, "–")))  # fmt: skip
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sessions", nargs="*", default=["last"])
    store = open_store("", find_paths().data / "kit.db", read_only=True)
    for name in parser.parse_args().sessions:
        session = store.get(name)
        print(f"{session.id}: {session.title}, real time of the whole run")
        print(tabulate(rows(session, analyse(session)), HEADERS, disable_numparse=True))


if __name__ == "__main__":
    main()
