"""Do the intervals hold? Simulated sessions with known penalties, through the kit's own schedule and statistics.

    python benchmarks/proofs/coverage.py [--sessions 2000] [--quick] [--worlds "equal;bursts"] [--rounds 3,5,auto]
    python benchmarks/proofs/coverage.py --worlds "CPU neighbours" --draws 2400      # where reruns make shapes many
    python benchmarks/proofs/coverage.py --rounds "" --precisions 0.02 --few  # likewise where arms end one by one
    python benchmarks/proofs/coverage.py --worlds "" --unpaired 4000               # imported runs, unequal numbers

For each kind of noise and each number of rounds, of seven arms and a control: how often the 95 % interval of an arm
holds its true penalty, and how often that of the arm for which it does so least; how often all of a session's do at
once; how often two identical arms are said to differ; mean half widths, one at a time and all at once; how often an arm
that costs 10 % is found; and how large a penalty is said to be detectable, with how often one of that size is found.
The simultaneous half width of an oracle that knows each comparison's error
stands beside it. With fixed rounds; with those of a session that ends when all is decided (auto, 10 rounds at most
here); and until a precision is reached. Sequential sessions, and
interleaved ones where the world's name says so. The last line says whether all is within bounds.

The kit simulates quantiles for each shape of a session: which arm has how many rounds. Sessions of one shape take 5 ms
each, a new shape 0.4 s. ``--draws`` takes fewer than the kit's 12,000, others for each shape, so that their error
averages out. ``--few`` leaves four arms and a control.

``--unpaired`` imports that many sessions of each shape: arms with unequal numbers of runs and unequal noise, normal on
the logarithmic scale, compared with the first one as independent samples. Individual coverage of all arms, of the worst
and of the best, and that of all at once have to be 93 to 97 %.
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
from worlds import LAST, PENALTIES, WORLDS, Arms, play

from kit.analysis.runs.compare import compare
from kit.analysis.runs.disturbance import find_bursts
from kit.analysis.runs.run_table import Runs
from kit.analysis.session.stopping import widening
from kit.analysis.stats import variance_pooling
from kit.analysis.stats.estimate import MORE, NOT_SIGNIFICANT
from kit.analysis.stats.estimators import CONFIDENCE
from kit.model.arm import Arm, parse_arms
from kit.model.default import AUTO_ROUNDS
from kit.model.options import SessionOptions
from kit.model.plan import Plan, make_plan
from kit.model.sample import IMPORTED, RUN_ORDER, UNPAIRED, Phase, Sample

NOTHING, TENTH = "layer:vfs", "layer:podman/overlay"
FEW = ("bare", NOTHING, TENTH, LAST)
ROUNDS = (3, 4, 5, 8, 10, 20)
PRECISIONS = (0.02, 0.01)
BOUNDS = (0.93, 0.98)
SAID = "coverage 93-98 %, all at once >= 93 %, A/A false positives <= 7 %, three standard errors allowed for"
#: What the budget of a session that ends when all is decided lasts for, in rounds.
MOST = 10
HEAD = (
    f"{'':34} {'':7} {'worst':>7} {'best':>7} {'':7} {'':6} {'half width':>13} {'oracle':>7} {'':5} "
    f"{'finds':>5} {'said to':>7}\n"
    f"{'':34} {'covers':>7} {'arm':>7} {'arm':>7} {'all':>7} {'A/A':>6} {'alone/ all':>13} {'all':>7} {'ratio':>5} "
    f"{'+10 %':>5} {'see ≥':>7} {'power':>5} {'rounds':>6}"
)


@dataclass(frozen=True)
class Tally:
    """Of one session: which arms' intervals hold, whether all do at once, identical arms said to differ, half widths
    (log; of the arms that are near the baseline) one at a time and all at once, whether a tenth is
    found, what is said to be detectable and by how much the arm without a penalty stands above it.
    ``errors``: of the estimates (log), those near the baseline first."""

    held: dict[str, bool]
    together: bool
    false: bool
    half: tuple[float, float]
    found: bool
    detectable: float
    margin: float
    rounds: int
    errors: tuple[float, ...]
    near: int


def simulate(plan: Plan, name: str, series: noise.Floats, draws: int, seed: int) -> Tally:
    """One session: the kit's schedule asks for runs, the world answers. ``draws``: 0 for the kit's own."""
    if draws:
        variance_pooling._DRAWS, variance_pooling._SEED = draws, seed
    penalties = {**PENALTIES, LAST: WORLDS[name].last}
    samples = play(plan, WORLDS[name], penalties, series, seed, MOST)
    bursts = find_bursts(samples) if WORLDS[name].seen else {}
    flagged = [
        replace(item, flags=bursts.get((item.arm, "", item.round), "") if item.rerun_of is None else "")
        for item in samples
    ]
    return judge(flagged, plan, penalties)


def judge(samples: list[Sample], plan: Plan, penalties: Arms) -> Tally:
    runs = Runs(samples)
    rounds = len({item.round for item in samples if item.rerun_of is None})
    found = compare(runs, plan.baselines, ("real",), True, widening(rounds if plan.until_decided else 0))
    real = [item for item in found if not item.control]
    truth = {item.arm: float(np.exp(penalties[item.arm])) for item in found}
    held = {item.arm: bool(item.low and item.high and item.low <= truth[item.arm] <= item.high) for item in found}
    together = all(bool(item.low_all and item.high_all and item.low_all <= truth[item.arm] <= item.high_all)
                   for item in real)  # fmt: skip
    near = [item for item in real if penalties[item.arm] < 0.2]
    ordered = [*near, *(item for item in real if item not in near)]
    tenth, nothing = (next(item for item in real if item.arm == arm) for arm in (TENTH, NOTHING))
    halves = np.array([[np.log((item.high or 1) / (item.low or 1)), np.log((item.high_all or 1) / (item.low_all or 1))]
                       for item in near]) / 2  # fmt: skip
    return Tally(
        held, together, any(item.verdict != NOT_SIGNIFICANT for item in found if item.control),
        (float(halves[:, 0].mean()), float(halves[:, 1].mean())),
        tenth.verdict_all == MORE,
        float(np.log(nothing.detectable or 1)), float(np.log(nothing.low_all or 1)),
        rounds,
        tuple(float(np.log((item.ratio or 1) / truth[item.arm])) for item in ordered), len(near),
    )  # fmt: skip


def _oracle(errors: noise.Floats, near: int) -> float:
    """The mean half width of simultaneous intervals by known errors, of the first ``near`` comparisons."""
    spread = np.sqrt((errors**2).mean(axis=0))
    return float(np.quantile((errors / spread).max(axis=1), CONFIDENCE) * spread[:near].mean())


def report(name: str, tallies: list[Tally]) -> bool:
    """Print one row; True if it is within bounds, three standard errors of chance allowed for."""
    each = {arm: float(np.mean([item.held[arm] for item in tallies if arm in item.held])) for arm in tallies[0].held}
    coverage = float(np.mean(list(each.values())))
    together, false = (float(np.mean([getattr(item, name) for item in tallies])) for name in ("together", "false"))
    half = np.mean([item.half for item in tallies], axis=0)
    found = float(np.mean([item.found for item in tallies]))
    known = _oracle(np.abs([item.errors for item in tallies]), tallies[0].near)
    said = float(np.median([item.detectable for item in tallies]))
    seen = float(np.mean([item.margin + said > 0 for item in tallies]))
    rounds = float(np.mean([item.rounds for item in tallies]))
    chance = 3 * (0.05 * 0.95 / len(tallies)) ** 0.5
    good = BOUNDS[0] - chance <= min(each.values()) and coverage <= BOUNDS[1] + chance
    good &= together >= BOUNDS[0] - chance and false <= 1 - BOUNDS[0] + chance
    figures = f"{coverage:7.1%} {min(each.values()):7.1%} {max(each.values()):7.1%} {together:7.1%} {false:6.1%}"
    figures += f" {half[0]:6.1%}/{half[1]:6.1%} {known:7.1%} {half[1] / known:5.2f} {found:5.0%}"
    figures += f" {np.expm1(said):7.1%} {seen:5.0%} {rounds:6.1f}"
    print(f"{name:34} {figures}{'' if good else '  <--'}", flush=True)
    return bool(good)


#: Runs of each arm and their standard deviations; the first arm is the baseline.
UNPAIRED_SHAPES: tuple[tuple[tuple[int, float], ...], ...] = (
    ((10, 0.03), (30, 0.03)),
    ((30, 0.03), (10, 0.03)),
    ((10, 0.03), (30, 0.10)),
    ((10, 0.10), (30, 0.03)),
    ((3, 0.03), (10, 0.03)),
    ((3, 0.03), (10, 0.09)),
    ((3, 0.09), (10, 0.03)),
    ((10, 0.03), (30, 0.06), (5, 0.02), (20, 0.10)),
    ((3, 0.03), (10, 0.06), (5, 0.02), (30, 0.01)),
)


def unpaired(shape: tuple[tuple[int, float], ...], seed: int) -> tuple[list[bool], bool, float]:
    """Return which arms' intervals hold the true ratio of means, whether all do at once, and the mean half width."""
    rng = np.random.default_rng((20_461_128, seed))
    samples = []
    for arm, (runs, spread) in enumerate(shape):
        times = (10 + arm) * np.exp(rng.normal(-(spread**2) / 2, spread, runs))
        samples += [
            Sample(f"arm {arm}", number, IMPORTED, "ok", 0.0, (Phase("run", "ok", real=float(seconds)),),
                   digests=((RUN_ORDER, UNPAIRED),))
            for number, seconds in enumerate(times, 1)
        ]  # fmt: skip
    baselines = [(f"arm {arm}", "arm 0") for arm in range(1, len(shape))]
    held, together, half = [], True, 0.0
    for arm, item in enumerate(compare(samples, baselines, ("real",), True), 1):
        truth = (10 + arm) / 10
        held.append(bool(item.low and item.high and item.low <= truth <= item.high))
        together &= bool(item.low_all and item.high_all and item.low_all <= truth <= item.high_all)
        half += float(np.log((item.high or 1) / (item.low or 1))) / 2 / len(baselines)
    return held, together, half


def report_unpaired(executor: ProcessPoolExecutor, count: int) -> bool:
    """Print a row for each shape; True if all are within bounds, three standard errors of chance allowed for."""
    good, chance = True, 3 * (0.05 * 0.95 / count) ** 0.5
    print(f"{count} imported sessions each, unpaired")
    print(f"{'runs and noise':58} {'covers':>7} {'worst':>7} {'best':>7} {'all':>7} {'half width':>10}")
    for shape in UNPAIRED_SHAPES:
        held, together, half = zip(*executor.map(partial(unpaired, shape), range(count), chunksize=50), strict=True)
        each, all_at_once = np.mean(held, axis=0), float(np.mean(together))
        within = all(0.93 - chance <= part <= 0.97 + chance for part in (*each, all_at_once))
        name = "; ".join(f"{runs} of {spread:.0%}" for runs, spread in shape)
        print(f"{name:58} {each.mean():7.1%} {each.min():7.1%} {each.max():7.1%} {all_at_once:7.1%} "
              f"{np.mean(half):10.2%}{'' if within else '  <--'}", flush=True)  # fmt: skip
        good &= within
    return good


def _plan(arms: tuple[Arm, ...], rounds: str) -> Plan:
    if rounds == "auto":
        return make_plan(arms, SessionOptions(rounds=AUTO_ROUNDS, seed=1, cache="cold", control=True))
    return make_plan(arms, SessionOptions(rounds=int(rounds), seed=1, cache="cold", control=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sessions")
    parser.add_argument("--worlds", default=";".join(WORLDS), help="separated by ';'")
    parser.add_argument("--rounds", default=",".join(map(str, ROUNDS)))
    parser.add_argument("--precisions", default=",".join(map(str, PRECISIONS)))
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--draws", type=int, default=0)
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--unpaired", type=int, default=0, help="imported sessions of each shape")
    noise.add_arguments(parser)
    arguments = parser.parse_args()
    count = arguments.sessions // (10 if arguments.quick else 1)
    series = noise.series_of(arguments)
    names = FEW if arguments.few else [arm for arm in PENALTIES if "control" not in arm]
    arms = parse_arms(",".join(names))
    plans = {f"{n} rounds": _plan(arms, n) for n in arguments.rounds.split(",") if n}
    wanted = [float(p) for p in arguments.precisions.split(",") if p]
    plans |= {
        f"until ±{p:.0%}": make_plan(arms, SessionOptions(rounds=1, seed=1, cache="cold", precision=p)) for p in wanted
    }
    print(f"{count} sessions each; noise of {series.size} recorded runs, standard deviation {series.std():.2%}")
    print(HEAD)
    good = True
    with ProcessPoolExecutor(arguments.processes) as executor:
        if arguments.unpaired:
            good &= report_unpaired(executor, arguments.unpaired)
        for world in filter(None, arguments.worlds.split(";")):
            for name, plan in plans.items():
                row = list(WORLDS).index(world) * 100 + list(plans).index(name)
                seeds = range(row * 1_000_000, row * 1_000_000 + count)
                play_one = partial(simulate, plan, world, series, arguments.draws)
                tallies = list(executor.map(play_one, seeds, chunksize=25))
                good &= report(f"{world}, {name}", tallies)
    print(f"{'within' if good else 'OUT OF'} bounds: {SAID}")
    sys.exit(not good)


if __name__ == "__main__":
    main()
