"""Do the intervals hold? Simulated sessions with known penalties, through the kit's own schedule and statistics.

    python benchmarks/coverage.py [--sessions 2000] [--quick]

For each kind of noise and each number of rounds: how often the 95 % interval of an arm holds its true penalty, how
often all of a session's do at once (the family-wise ones), how often two identical arms are said to differ, and the
mean half width. With and without adaptive stopping. The last line says whether all is within bounds.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product

import noise
import numpy as np

from kit.arm import parse_arms
from kit.burst import find_bursts
from kit.compare import NOT_DETECTED
from kit.plan import Plan, make_plan
from kit.runs import Runs
from kit.sample import Phase, Sample
from kit.schedule import End, Schedule, total_comparisons

PENALTIES = {"bare": 0.0, "bare+control": 0.0, "runtime:overlay2": 0.0, "bind:overlay2": 0.02, "layer:overlay2": 0.08}
ROUNDS = (3, 4, 6, 10, 20, 50)
PRECISIONS = (0.02, 0.01)
_LONGEST = 100 * len(PENALTIES) + 200
BOUNDS = (0.93, 0.97)


@dataclass(frozen=True)
class Tally:
    """Of one session: comparisons made and covered, all covered at once, identical arms said to differ, half width."""

    made: int
    covered: int
    together: bool
    false: int
    half: float
    rounds: int


def simulate(plan: Plan, world: str, series: noise.Floats, seed: int) -> Tally:
    """One session: the kit's schedule asks for runs, the world answers."""
    rng = np.random.default_rng(seed)
    weather = noise.WORLDS[world](rng, _LONGEST, series)
    schedule = Schedule(plan, PENALTIES)
    samples: list[Sample] = []
    while not isinstance(block := schedule.next(samples), End):
        for step in block.steps:
            i = len(samples)
            real = 10 * float(np.exp(PENALTIES[str(step.arm)] + weather.deviation[i]))
            phase = Phase("build", "ok", real, steal=0.0, psi_cpu=real * float(weather.pressure[i]))
            spin = float(np.exp(weather.memory[i]))
            samples.append(
                Sample(
                    str(step.arm), step.block, "measured", "ok", float(i), (phase,), 0.004, 0.004, spin, spin,
                    repeats=step.repeats,
                )
            )  # fmt: skip
    bursts = find_bursts(samples)
    flagged = [
        Sample(**{**vars(item), "flags": bursts.get((item.arm, "", item.block), "") if item.repeats is None else ""})
        for item in samples
    ]
    return judge(flagged, plan)


def judge(samples: list[Sample], plan: Plan) -> Tally:
    found = total_comparisons(Runs(samples), plan)
    truths = [float(np.exp(PENALTIES[item.arm])) for item in found]
    covered = [
        bool(item.low and item.high and item.low <= truth <= item.high)
        for item, truth in zip(found, truths, strict=True)
    ]
    together = [bool(item.low_all and item.high_all and item.low_all <= truth <= item.high_all)
                for item, truth in zip(found, truths, strict=True) if not item.control]  # fmt: skip
    false = sum(item.verdict != NOT_DETECTED for item in found if item.control)
    half = float(np.mean([item.reach for item in found]))
    return Tally(len(found), sum(covered), all(together), false, half, max(item.block for item in samples))


def report(name: str, tallies: list[Tally]) -> bool:
    """Print one row; True if it is within bounds, three standard errors of chance allowed for."""
    made = sum(item.made for item in tallies)
    coverage = sum(item.covered for item in tallies) / made
    together = sum(item.together for item in tallies) / len(tallies)
    false = sum(item.false for item in tallies) / len(tallies)
    half = float(np.mean([item.half for item in tallies]))
    rounds = float(np.mean([item.rounds for item in tallies]))
    chance = 3 * (0.05 * 0.95 / len(tallies)) ** 0.5
    good = BOUNDS[0] <= coverage <= BOUNDS[1] and together >= 0.95 - chance and false <= 0.05 + chance
    figures = f"{coverage:8.1%} {together:9.1%} {false:8.1%} {half:9.2%} {rounds:7.1f}"
    print(f"{name:34} {figures}{'' if good else '  <--'}", flush=True)
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sessions")
    parser.add_argument("--worlds", default=",".join(noise.WORLDS))
    noise.add_arguments(parser)
    arguments = parser.parse_args()
    count = arguments.sessions // (10 if arguments.quick else 1)
    series = noise.series_of(arguments)
    arms = parse_arms(",".join(arm for arm in PENALTIES if "control" not in arm))
    plans = {f"{n} rounds": make_plan(arms, n, 1, "cold", control=True) for n in ROUNDS}
    plans |= {f"until ±{p:.0%}": make_plan(arms, 1, 1, "cold", precision=p) for p in PRECISIONS}
    print(f"{count} sessions each; noise of {series.size} recorded runs, standard deviation {series.std():.2%}")
    print(f"{'':34} {'coverage':>8} {'all hold':>9} {'A/A':>8} {'± mean':>9} {'rounds':>7}")
    good = True
    pooled: dict[str, list[Tally]] = {"fixed number of rounds": [], "adaptive stopping": []}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for row, (world, name) in enumerate(product(arguments.worlds.split(","), plans)):
            play = partial(simulate, plans[name], world, series)
            seeds = range(row * 1_000_000, row * 1_000_000 + count)
            tallies = list(pool.map(play, seeds, chunksize=25))
            pooled["adaptive stopping" if plans[name].sequential else "fixed number of rounds"] += tallies
            good &= report(f"{world}, {name}", tallies)
    for name, tallies in pooled.items():
        good &= report(f"all, {name}", tallies)
    wanted = "coverage 93-97 %, all hold >= 95 %, A/A false positives <= 5 %, three standard errors allowed for"
    print(f"{'within' if good else 'OUT OF'} bounds: {wanted}")
    sys.exit(not good)


if __name__ == "__main__":
    main()
