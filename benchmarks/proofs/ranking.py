"""Does the ranking keep its word? Simulated sessions of eight arms, of which some are the same, in the kit's own order.

    python benchmarks/proofs/ranking.py [--sessions 1000] [--rounds 3,5,10] [--worlds equal;bursts]

Printed for each kind of noise and number of rounds:

- in how many sessions an interval of the column against the reference misses the truth, and one of the other pairs of
  picks: families of their own, 5 % each at most;
- in how many anything is wrong with letters or ranks (two arms that are the same share no letter, a rank lies outside
  its interval). They take their relations to the reference from the first family, all others from the second;
- how many of the arms that differ by 5 % and by 10 % differ significantly; how often the arm that takes 2.4 times as
  long differs from all others; and the mean width of a rank interval of eight.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import noise
import numpy as np
from worlds import LAST, WORLDS, Arms, play

from kit.analysis.runs.run_table import Runs
from kit.analysis.session.ranking import Ranking, rank
from kit.model.arm import parse_arms
from kit.model.options import SessionOptions
from kit.model.plan import Plan, make_plan

TRUTH: Arms = {
    "bare": -0.02, "layer:overlay2": 0.0, "bind:overlay2": 0.0, "volume:overlay2": 0.0, "layer:vfs": 0.05,
    "layer:podman/overlay": 0.05, "layer:containerd/overlayfs": 0.1, "bind:fuse-overlayfs": 0.1, LAST: 0.0,
}  # fmt: skip
BOUND = 0.05


@dataclass(frozen=True)
class Tally:
    column: bool
    pairs: bool
    groups: bool
    middling: float
    tenth: float
    far: float
    width: float


def simulate(plan: Plan, name: str, series: noise.Floats, seed: int) -> Tally:
    world = WORLDS[name]
    truth = {**TRUTH, LAST: float(np.log(2.4)) if world.last > 0.5 else 0.0}
    runs = Runs(play(plan, world, truth, series, seed))
    return judge(rank(runs, list(truth), baselines=plan.baselines)[0], truth)


def judge(found: Ranking, truth: Arms) -> Tally:
    names = [row.arm for row in found.picks]
    pairs = {(item.arm, item.other): item for item in found.pairs}
    missed = {pair: not np.log(item.low_all or 1e-9) <= truth[pair[0]] - truth[pair[1]] <= np.log(item.high_all or 1e9)
              for pair, item in pairs.items()}  # fmt: skip
    column = any(wrong for pair, wrong in missed.items() if found.reference in pair)
    others = any(wrong for pair, wrong in missed.items() if found.reference not in pair)
    groups = {row.arm: set(row.group) for row in found.picks}
    apart = {frozenset(pair) for pair in combinations(names, 2) if not groups[pair[0]] & groups[pair[1]]}
    same = any(truth[one] == truth[other] for one, other in apart)
    outside = False
    for row in found.picks:
        best = 1 + sum(truth[other] < truth[row.arm] for other in names)
        worst = sum(truth[other] <= truth[row.arm] for other in names)
        outside |= row.rank_low > worst or row.rank_high < best
        outside |= row.rank_low > best or row.rank_high < worst  # every rank that ties allow
    gaps = {pair: abs(truth[pair[0]] - truth[pair[1]]) for pair in combinations(names, 2) if pair in pairs}
    middling, tenth = ([frozenset(pair) in apart for pair, gap in gaps.items() if abs(gap - size) < 0.001]
                       for size in (0.05, 0.1))  # fmt: skip
    far = all(frozenset((LAST, other)) in apart for other in names if other != LAST)
    width = float(np.mean([row.rank_high - row.rank_low + 1 for row in found.picks]))
    return Tally(column, others, same or outside, float(np.mean(middling)), float(np.mean(tenth)), far, width)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--worlds", default=";".join(list(WORLDS)[:6]), help="separated by ';'")
    parser.add_argument("--rounds", default="3,4,5,8,10,20")
    noise.add_arguments(parser)
    arguments = parser.parse_args()
    series = noise.series_of(arguments)
    arms = parse_arms(",".join(TRUTH))
    print(f"{arguments.sessions} sessions each")
    print(
        f"{'':28} {'column':>7} {'pairs':>7} {'groups':>7} {'5 % told':>9} {'10 % told':>9} "
        f"{'x 2.4 told':>10} {'rank width':>10}"
    )
    good = True
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for world in arguments.worlds.split(";"):
            for n in map(int, arguments.rounds.split(",")):
                plan = make_plan(arms, SessionOptions(rounds=n, seed=1, cache="cold", control=False))
                seeds = range(n * 1_000_000, n * 1_000_000 + arguments.sessions)
                tallies = list(pool.map(partial(simulate, plan, world, series), seeds, chunksize=25))
                means = np.mean(
                    [
                        [item.column, item.pairs, item.groups, item.middling, item.tenth, item.far, item.width]
                        for item in tallies
                    ],
                    0,
                )
                fine = max(means[:2]) <= BOUND + 3 * (0.05 * 0.95 / arguments.sessions) ** 0.5
                good &= bool(fine)
                far = f"{means[5]:10.1%}" if WORLDS[world].last > 0.5 else f"{'–':>10}"
                print(f"{f'{world}, {n} rounds':28} {' '.join(f'{mean:7.1%}' for mean in means[:3])} "
                      f"{means[3]:9.1%} {means[4]:9.1%} {far} "
                      f"{means[6]:10.1f}{'' if fine else '  <--'}", flush=True)  # fmt: skip
    bounds = "an interval of either family misses in 5 % of the sessions at most, three standard errors allowed for"
    print(f"{'within' if good else 'OUT OF'} bounds: {bounds}")
    sys.exit(not good)


if __name__ == "__main__":
    main()
