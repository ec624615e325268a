"""Do the intervals of the matrix's means hold? Simulated sessions, analysed by the kit, put together to matrices.

    python benchmarks/proofs/matrix.py [--sessions 600] [--scenarios 3,9] [--rounds auto,3,6] [--worlds equal;bursts]

A session is played by the kit's own schedule and analysed by its own ranking. A matrix takes its scenarios from
sessions at random, each at most once. Scenarios differ in their penalties: an arm costs from nothing to a quarter. The
truth is the mean of the true logarithms of just these scenarios. ``auto``: sessions that end when each arm is decided.

Printed for each kind of noise and number of rounds: how often the individual interval of a mean holds, of the arm that
holds least too, and how often all arms' simultaneous intervals hold; with equal weights, and where one scenario has
three times the weight of another; and the mean half width in percent, beside that of a single scenario.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import noise
import numpy as np
from worlds import WORLDS, play

from kit.analysis.runs.run_table import Runs
from kit.analysis.session.ranking import rank
from kit.analysis.stats.estimators import CONFIDENCE, Centre, log_centre
from kit.extra.matrix.analysis.cell import MatrixCell
from kit.extra.matrix.analysis.mean import interval_together, weighted_mean
from kit.model.arm import parse_arms
from kit.model.default import AUTO_ROUNDS
from kit.model.options import SessionOptions
from kit.model.plan import make_plan

ARMS = ("bare", "layer:overlay2", "layer:btrfs", "layer:vfs", "layer:fuse-overlayfs")
REFERENCE = "layer:overlay2"
#: Most rounds of a session of an open number, as a budget of ten minutes allows of runs of ten seconds.
MOST = 12
#: Matrices of each cell, and how far a coverage may lie below 95 %.
MATRICES, ALLOWED = 4000, 0.015


@dataclass(frozen=True)
class Played:
    """One session: the logarithm of each arm's ratio to the reference, less the truth; and the half widths of their
    simultaneous intervals."""

    missed: tuple[Centre, ...]
    halves: tuple[float, ...]


def simulate(rounds: int, world: str, series: noise.Floats, seed: int) -> Played | None:
    rng = np.random.default_rng(seed)
    truth = {arm: float(rng.uniform(0, 0.25)) for arm in ARMS} | {REFERENCE: 0.05}
    plan = make_plan(parse_arms(",".join(ARMS)), SessionOptions(rounds=rounds, seed=seed, cache="cold", control=False))
    samples = play(plan, WORLDS[world], truth, series, seed, MOST)
    looked = len({item.round for item in samples}) if rounds == AUTO_ROUNDS else 0
    (found,) = rank(Runs(samples), ARMS, "", REFERENCE, rounds=looked, baselines=plan.baselines)
    missed = []
    for row in found.rows:
        if row.against and row.pick:
            item = row.against
            made = log_centre(item.ratio, item.degrees)
            if made is None or made.error is None:
                return None
            away = made.estimate - (truth[row.arm] - truth[REFERENCE])
            half = MatrixCell(row.arm, "", together=item.ratio.together).half_all
            missed.append((row.arm, Centre(away, made.error, made.degrees, made.n), half))
    _, centres, halves = zip(*sorted(missed, key=lambda item: item[0]), strict=True)
    return Played(centres, halves)


def matrices(sessions: Sequence[Played], scenarios: int, rng: np.random.Generator) -> Iterator[Sequence[Played]]:
    for _ in range(MATRICES):
        yield [sessions[i] for i in rng.choice(len(sessions), scenarios, replace=False)]


def judge(sessions: Sequence[Played], scenarios: int, first: float, seed: int) -> tuple[float, float, float, float]:
    """Return the share of individual intervals that hold, of the arm with the least, of families that do, and the mean
    half width. ``first``: weight of the first scenario."""
    held, together, widths = [], [], []
    for chosen in matrices(sessions, scenarios, np.random.default_rng(seed)):
        weights = [first, *[1.0] * (len(chosen) - 1)]
        means, apart = [], False
        family = len(chosen[0].missed)
        for arm in range(family):
            mean = weighted_mean([(weight, item.missed[arm]) for weight, item in zip(weights, chosen, strict=True)])
            assert mean
            means.append(mean)
            halves = [(weight, item.halves[arm]) for weight, item in zip(weights, chosen, strict=True)]
            apart |= interval_together(mean, halves, family).leaves_out(0.0)
        held.append([not mean.interval(CONFIDENCE).leaves_out(0.0) for mean in means])
        together.append(not apart)
        ends = [mean.interval().high or 0.0 for mean in means]
        widths.append(np.mean([end - mean.estimate for end, mean in zip(ends, means, strict=True)]))
    shares = np.mean(held, 0)
    return float(shares.mean()), float(shares.min()), float(np.mean(together)), float(np.mean(widths))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=600)
    parser.add_argument("--scenarios", default="3,9")
    parser.add_argument("--worlds", default="equal;random variances;one arm 5 x as noisy", help="separated by ';'")
    parser.add_argument("--rounds", default="auto,3,6")
    noise.add_arguments(parser)
    arguments = parser.parse_args()
    series = noise.series_of(arguments)
    print(f"{arguments.sessions} sessions each, {MATRICES} matrices")
    print(f"{'':36} {'mean':>7} {'worst':>7} {'family':>7} {'half':>7}   {'one x 3':>7} {'worst':>7} {'family':>7}")
    good = True
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for world in arguments.worlds.split(";"):
            for text in arguments.rounds.split(","):
                rounds = AUTO_ROUNDS if text == "auto" else int(text)
                seeds = range(rounds * 1_000_000, rounds * 1_000_000 + arguments.sessions)
                tried = pool.map(partial(simulate, rounds, world, series), seeds, chunksize=10)
                sessions = [item for item in tried if item]
                for scenarios in (1, *map(int, arguments.scenarios.split(","))):
                    plain, heavy = (judge(sessions, scenarios, first, 1) for first in (1.0, 3.0))
                    fine = min(plain[0], plain[2], heavy[0], heavy[2]) > CONFIDENCE - ALLOWED
                    good &= fine
                    shares = " ".join(f"{share:7.1%}" for share in plain[:3])
                    others = " ".join(f"{share:7.1%}" for share in heavy[:3])
                    name = f"{world}, {text} rounds, {scenarios} scenario{'s' if scenarios > 1 else ''}"
                    print(f"{name:36} {shares} {math.expm1(plain[3]):7.2%}   {others}{'' if fine else '  <--'}",
                          flush=True)  # fmt: skip
    print(f"{'within' if good else 'OUT OF'} bounds: means and families hold in {CONFIDENCE - ALLOWED:.1%} or more")
    sys.exit(not good)


if __name__ == "__main__":
    main()
