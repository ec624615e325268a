"""Do the intervals hold? Simulated sessions with known penalties, through the kit's own schedule and statistics.

    python benchmarks/coverage.py [--sessions 2000] [--quick] [--worlds equal,bursts] [--rounds 3,5]

For each kind of noise and each number of rounds, of seven arms and a control: how often the 95 % interval of an arm
holds its true penalty, and how often that of the arm for which it does so least; how often all of a session's do at
once; how often two identical arms are said to differ; mean half widths, one at a time and all at once; how often an arm
that costs 10 % is found; and how large a penalty is said to be detectable, with how often one of that size is found.
Half widths and power of the method before, in which each comparison had its own variance alone, stand beside it, and
the simultaneous half width of an oracle that knows each comparison's error. With and without adaptive stopping. The
last line says whether all is within bounds.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import noise
import numpy as np
from before import by_itself
from worlds import LAST, PENALTIES, WORLDS, Arms, play

from kit.analysis.burst import find_bursts
from kit.analysis.columns import Runs
from kit.analysis.compare import MORE, NOT_DETECTED, Comparison
from kit.analysis.stats import CONFIDENCE
from kit.model.arm import parse_arms
from kit.model.plan import Plan, make_plan
from kit.model.sample import Sample
from kit.session.schedule import total_comparisons

NOTHING, TENTH = "layer:vfs", "layer:podman/overlay"
ROUNDS = (3, 4, 5, 8, 10, 20)
PRECISIONS = (0.02, 0.01)
BOUNDS = (0.93, 0.97)
SAID = (
    "coverage 93-97 % (bursts may be above), all at once >= 93 %, A/A false positives <= 7 %, three standard errors "
    "allowed for"
)
HEAD = (
    f"{'':28} {'':7} {'worst':>7} {'':7} {'':6} {'half width':>13} {'oracle':>7} {'before':>13} "
    f"{'finds +10 %':>11} {'said to':>7}\n"
    f"{'':28} {'covers':>7} {'arm':>7} {'all':>7} {'A/A':>6} {'alone/ all':>13} {'all':>7} {'alone/ all':>13} "
    f"{'now':>5} {'then':>5} {'see ≥':>7} {'power':>5} {'rounds':>6}"
)


@dataclass(frozen=True)
class Tally:
    """Of one session: which arms' intervals hold, whether all do at once, identical arms said to differ, half widths
    (log; of the arms that are near the baseline) one at a time and all at once, now and before, whether a tenth is
    found, now and before, what is said to be detectable and by how much the arm without a penalty stands above it.
    ``errors``: of the estimates (log), those near the baseline first."""

    held: dict[str, bool]
    together: bool
    false: bool
    half: tuple[float, float]
    before: tuple[float, float]
    found: tuple[bool, bool]
    detectable: float
    margin: float
    rounds: int
    errors: tuple[float, ...]
    near: int


def simulate(plan: Plan, name: str, series: noise.Floats, seed: int) -> Tally:
    """One session: the kit's schedule asks for runs, the world answers."""
    penalties = {**PENALTIES, LAST: WORLDS[name].last}
    samples = play(plan, WORLDS[name], penalties, series, seed)
    bursts = find_bursts(samples)
    flagged = [
        replace(item, flags=bursts.get((item.arm, "", item.block), "") if item.repeats is None else "")
        for item in samples
    ]
    return judge(flagged, plan, penalties)


def judge(samples: list[Sample], plan: Plan, penalties: Arms) -> Tally:
    runs = Runs(samples)
    found = total_comparisons(runs, plan)
    real = [item for item in found if not item.control]
    truth = {item.arm: float(np.exp(penalties[item.arm])) for item in found}
    held = {item.arm: bool(item.low and item.high and item.low <= truth[item.arm] <= item.high) for item in found}
    together = all(bool(item.low_all and item.high_all and item.low_all <= truth[item.arm] <= item.high_all)
                   for item in real)  # fmt: skip
    near = [item for item in real if penalties[item.arm] < 0.2]
    ordered = [*near, *(item for item in real if item not in near)]
    own = {item.arm: _before(runs, item, len(real)) for item in near}
    tenth, nothing = (next(item for item in real if item.arm == arm) for arm in (TENTH, NOTHING))
    halves = np.array([[np.log((item.high or 1) / (item.low or 1)), np.log((item.high_all or 1) / (item.low_all or 1))]
                       for item in near]) / 2  # fmt: skip
    before = np.array([[half, wide] for _, half, wide in own.values()])
    estimate, _, wide = own[TENTH]
    return Tally(
        held, together, any(item.verdict != NOT_DETECTED for item in found if item.control),
        (float(halves[:, 0].mean()), float(halves[:, 1].mean())),
        (float(before[:, 0].mean()), float(before[:, 1].mean())),
        (tenth.verdict_all == MORE, estimate > wide),
        float(np.log(nothing.detectable or 1)), float(np.log(nothing.low_all or 1)),
        max(item.block for item in samples),
        tuple(float(np.log((item.ratio or 1) / truth[item.arm])) for item in ordered), len(near),
    )  # fmt: skip


def _before(runs: Runs, item: Comparison, family: int) -> tuple[float, float, float]:
    """By the method before: estimate, half width alone and with Bonferroni's."""
    found = by_itself(runs, item, family)
    estimate = found.centre.estimate
    return estimate, (found.alone.high or 0) - estimate, (found.together.high or 0) - estimate


def _oracle(errors: noise.Floats, near: int) -> float:
    """The mean half width of simultaneous intervals by known errors, of the first ``near`` comparisons."""
    spread = np.sqrt((errors**2).mean(axis=0))
    return float(np.quantile((errors / spread).max(axis=1), CONFIDENCE) * spread[:near].mean())


def report(name: str, tallies: list[Tally]) -> bool:
    """Print one row; True if it is within bounds, three standard errors of chance allowed for."""
    each = {arm: float(np.mean([item.held[arm] for item in tallies])) for arm in tallies[0].held}
    coverage = float(np.mean(list(each.values())))
    together, false = (float(np.mean([getattr(item, name) for item in tallies])) for name in ("together", "false"))
    half, before, found = (np.mean([getattr(item, name) for item in tallies], axis=0)
                           for name in ("half", "before", "found"))  # fmt: skip
    known = _oracle(np.abs([item.errors for item in tallies]), tallies[0].near)
    said = float(np.median([item.detectable for item in tallies]))
    seen = float(np.mean([item.margin + said > 0 for item in tallies]))
    rounds = float(np.mean([item.rounds for item in tallies]))
    chance = 3 * (0.05 * 0.95 / len(tallies)) ** 0.5
    good = BOUNDS[0] <= coverage <= BOUNDS[1] or ("bursts" in name and coverage > BOUNDS[0])
    good &= together >= BOUNDS[0] - chance and false <= 1 - BOUNDS[0] + chance
    figures = f"{coverage:7.1%} {min(each.values()):7.1%} {together:7.1%} {false:6.1%}"
    figures += (
        f" {half[0]:6.1%}/{half[1]:6.1%} {known:7.1%} {before[0]:6.1%}/{before[1]:6.1%} {found[0]:5.0%} {found[1]:5.0%}"
    )
    figures += f" {np.expm1(said):7.1%} {seen:5.0%} {rounds:6.1f}"
    print(f"{name:28} {figures}{'' if good else '  <--'}", flush=True)
    return bool(good)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sessions")
    parser.add_argument("--worlds", default=";".join(WORLDS), help="separated by ';'")
    parser.add_argument("--rounds", default=",".join(map(str, ROUNDS)))
    parser.add_argument("--precisions", default=",".join(map(str, PRECISIONS)))
    noise.add_arguments(parser)
    arguments = parser.parse_args()
    count = arguments.sessions // (10 if arguments.quick else 1)
    series = noise.series_of(arguments)
    arms = parse_arms(",".join(arm for arm in PENALTIES if "control" not in arm))
    plans = {f"{n} rounds": make_plan(arms, int(n), 1, "cold", control=True) for n in arguments.rounds.split(",") if n}
    wanted = [float(p) for p in arguments.precisions.split(",") if p]
    plans |= {f"until ±{p:.0%}": make_plan(arms, 1, 1, "cold", precision=p) for p in wanted}
    print(f"{count} sessions each; noise of {series.size} recorded runs, standard deviation {series.std():.2%}")
    print(HEAD)
    good = True
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for world in arguments.worlds.split(";"):
            for name, plan in plans.items():
                row = list(WORLDS).index(world) * 100 + list(plans).index(name)
                seeds = range(row * 1_000_000, row * 1_000_000 + count)
                tallies = list(pool.map(partial(simulate, plan, world, series), seeds, chunksize=25))
                good &= report(f"{world}, {name}", tallies)
    print(f"{'within' if good else 'OUT OF'} bounds: {SAID}")
    sys.exit(not good)


if __name__ == "__main__":
    main()
