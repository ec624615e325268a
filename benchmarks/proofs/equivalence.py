"""How often is "equivalent" wrong in a session that was interrupted, or shared by two machines? Simulated sessions.

    python benchmarks/proofs/equivalence.py [--sessions 2000] [--rounds 2,3,4,6] [--worlds "normal 1 %"] [--arms 2,6]

A session was planned with six rounds and holds those to N. It is played by the kit's own schedule and ranked by the
kit. Each arm costs 3.1 % more or less than the reference, or as much, or 1 % more: at a margin of 3 % two of these are
equivalent. Of the worlds with two machines each runs every second round, with noise of its own; in the last each arm's
cost differs between the machines by 3 %.

Printed for each world, number of arms besides the baseline, and number of rounds, by three rules (the tests alone;
also at least DECIDE_FROM rounds; also a control that passes the tests, which is the kit's rule):

- *wrong*: in how many sessions an arm is equivalent that differs by more than the margin;
- *right*: how many of the equivalent arms are called so.

The last line says whether the kit's rule is wrong in 5 % of the sessions at most, three standard errors allowed for.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import noise
import numpy as np
from worlds import Arms, World, play

from kit.analysis.runs.run_table import Runs
from kit.analysis.session.ranking import Ranking, rank
from kit.analysis.stats.estimate import within_margin
from kit.model.arm import parse_arms
from kit.model.options import SessionOptions
from kit.model.plan import DECIDE_FROM, DEFAULT_MARGIN, Plan, make_plan
from kit.model.sample import Sample

PLANNED = 6
BEYOND = math.log1p(DEFAULT_MARGIN + 0.001)
REFERENCE, FIRST = "layer:overlay2", "bare"
#: What the arms cost, as logarithms: of one comparison, and of several.
TWO: Arms = {FIRST: BEYOND, "bare+control": BEYOND, REFERENCE: 0.0}
MANY: Arms = {
    **TWO, "bind:overlay2": 0.0, "volume:overlay2": 0.01, "layer:vfs": BEYOND, "layer:podman/overlay": -BEYOND,
}  # fmt: skip
SAME: Arms = dict.fromkeys(TWO, 0.0)
BOUND = 0.05


def _times(weather: Callable[..., noise.Noise], factor: float) -> Callable[..., noise.Noise]:
    def scaled(rng: np.random.Generator, runs: int, series: noise.Floats) -> noise.Noise:
        made = weather(rng, runs, series)
        return replace(made, deviation=made.deviation * factor)

    return scaled


def _noisy(arm: str) -> Callable[[np.random.Generator], Arms]:
    return lambda rng: {**dict.fromkeys(MANY, 1.0), arm: 5.0}


@dataclass(frozen=True)
class Case:
    """``machines``: of each what it makes of the world; ``apart``: standard deviation of an arm's cost between them."""

    machines: tuple[World, ...]
    apart: float = 0.0


_QUIET, _LOUD = World(_times(noise.normal, 1 / 3)), World(noise.normal)
CASES = {
    "normal 0.5 %": Case((World(_times(noise.normal, 1 / 6)),)),
    "normal 1 %": Case((_QUIET,)),
    "normal 3 %": Case((_LOUD,)),
    "heavy tails, 0.9 %": Case((World(_times(noise.heavy, 0.5)),)),
    "AR(1) 0.6, 1 %": Case((World(_times(noise.dependent, 1 / 3)),)),
    "bursts, half": Case((World(_times(noise.bursting, 0.5)),)),
    "CPU neighbours, half": Case((World(_times(noise.neighbours, 0.5)),)),
    "1 %, one arm 5 %": Case((replace(_QUIET, arms=_noisy("layer:vfs")),)),
    "1 %, baseline 5 %": Case((replace(_QUIET, arms=_noisy(FIRST)),)),
    "1 %, reference 5 %": Case((replace(_QUIET, arms=_noisy(REFERENCE)),)),
    "two machines, 1 %": Case((_QUIET, _QUIET)),
    "two machines, 1 % and 3 %": Case((_QUIET, _LOUD)),
    "two machines, 3 % apart": Case((_QUIET, _QUIET), 0.03),
}


@dataclass(frozen=True)
class Tally:
    """By each rule, whether a statement is wrong, and the share of equivalent arms that are called so."""

    wrong: tuple[bool, ...]
    right: tuple[float, ...]


def measure(plan: Plan, case: Case, truth: Arms, series: noise.Floats, seed: int) -> list[Sample]:
    count, samples = len(case.machines), list[Sample]()
    rng = np.random.default_rng((seed, 1))
    for number, world in enumerate(case.machines):
        rounds = tuple(range(number + 1, plan.rounds + 1, count)) if count > 1 else ()
        costs = {arm: cost + case.apart * float(rng.normal()) for arm, cost in truth.items()}
        samples += play(replace(plan, assigned=rounds), world, costs, series, seed * count + number)
    return samples


def simulate(
    plan: Plan, world: str, truth: Arms, rounds: Sequence[int], series: noise.Floats, seed: int
) -> list[Tally]:
    samples = measure(plan, CASES[world], truth, series, seed)
    tallies = []
    for n in rounds:
        kept = [item for item in samples if (item.rerun_of or item.round) <= n]
        tallies.append(judge(rank(Runs(kept), list(truth), "real", REFERENCE, baselines=plan.baselines)[0], truth))
    return tallies


def judge(ranking: Ranking, truth: Arms) -> Tally:
    found = []
    for row in ranking.rows:
        if row.against:
            item = row.against
            alone = within_margin(item.low_bound, item.high_bound, ranking.margin)
            said = alone, alone and item.n >= DECIDE_FROM, item.equivalent(ranking.margin)
            found.append((abs(truth[row.arm]) <= math.log1p(ranking.margin), said))
    rules = range(3)
    true = [said for equal, said in found if equal]
    return Tally(
        tuple(any(said[rule] for equal, said in found if not equal) for rule in rules),
        tuple(float(np.mean([said[rule] for said in true])) if true else 0.0 for rule in rules),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--worlds", default=";".join(CASES), help="separated by ';'")
    parser.add_argument("--rounds", default="2,3,4,6")
    parser.add_argument("--arms", default="2,6")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    noise.add_arguments(parser)
    arguments = parser.parse_args()
    series, rounds = noise.series_of(arguments), [int(n) for n in arguments.rounds.split(",")]
    print(f"{arguments.sessions} sessions each; by the tests alone, also {DECIDE_FROM} rounds, also the control")
    print(f"{'':44} {'wrong':>20}   {'right':>20}")
    good = True
    with ProcessPoolExecutor(arguments.processes) as pool:
        for world in arguments.worlds.split(";"):
            for arms in map(int, arguments.arms.split(",")):
                tallies = play_all(pool, world, arms, rounds, series, arguments.sessions)
                good &= report(f"{world}, {arms} arms", rounds, tallies)
    print(f"{'within' if good else 'OUT OF'} bounds: wrong in {BOUND:.0%} at most, three standard errors allowed for")
    sys.exit(not good)


def play_all(
    pool: ProcessPoolExecutor, world: str, arms: int, rounds: Sequence[int], series: noise.Floats, sessions: int
) -> list[list[Tally]]:
    """Return the tallies of each session by rounds. With two arms there is one truth: wrong, or right in others."""
    truths = [MANY] if arms > 2 else [TWO, SAME]
    made = []
    for truth in truths:
        plan = make_plan(
            parse_arms(",".join(arm for arm in truth if "control" not in arm)),
            SessionOptions(rounds=PLANNED, seed=1, cache="cold", control=True),
        )
        run = partial(simulate, plan, world, truth, rounds, series)
        made.append(list(pool.map(run, range(sessions), chunksize=20)))
    if len(made) == 1:
        return made[0]
    return [
        [Tally(one.wrong, other.right) for one, other in zip(*session, strict=True)]
        for session in zip(*made, strict=True)
    ]


def report(name: str, rounds: Sequence[int], tallies: Sequence[Sequence[Tally]]) -> bool:
    """Print a row for each number of rounds; return whether the kit's rule is within bounds."""
    good, allowed = True, BOUND + 3 * (BOUND * (1 - BOUND) / len(tallies)) ** 0.5
    for at, n in enumerate(rounds):
        wrong, right = (np.mean([getattr(item[at], what) for item in tallies], 0) for what in ("wrong", "right"))
        fine = bool(wrong[2] <= allowed)
        good &= fine
        shares = "   ".join(" ".join(f"{share:6.1%}" for share in found) for found in (wrong, right))
        print(f"{f'{name}, {n} rounds':44} {shares}{'' if fine else '  <--'}", flush=True)
    return good


if __name__ == "__main__":
    main()
