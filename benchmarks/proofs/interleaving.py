"""How narrow is a comparison after ten minutes: arms one after the other, interleaved, with a metronome, both at once?

    python benchmarks/proofs/interleaving.py [--sessions 1000] [--speed FILE] [--stored SESSION,… [--pairs ARM=ARM,…]]

Runs of 10 s are reckoned from a recorded speed (benchmarks/proofs/speed.py; --speed takes another). For each way, of
two and of eight identical arms: the standard deviation of the log ratio of two runs of a round, how long a round takes,
and half the 95 % interval of a ratio after ten minutes. What a run errs by itself (where its files and pages lie) is
added to all. A metronome is a reference load that has a slice after each of the arm's, by whose speed the arm's time
is divided, and slows down exactly as the arm does; it is given the best of luck by that. Both at once is a duet (Bulej
et al. 2020), a CPU for each: reckoned where each CPU's speed was recorded.

Then sessions of arms with known penalties, by the kit's own schedule, order of turns and statistics, as
benchmarks/proofs/coverage.py has them. Of stored sessions: how much two identical arms, a control and its baseline,
differed in each round of all of them, whether their means differ by more than the rounds explain, and of how many
selections of so many rounds the interval holds 1; that alone. Else the last line says whether turns are within bounds.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import coverage
import numpy as np
import speed
from reckoned import Machine, by_metronome, by_turns, one_after_the_other
from scipy.special import fdtrc
from worlds import PENALTIES

from kit.analysis.runs.compare import is_control
from kit.analysis.runs.paired import COPIES, with_error
from kit.analysis.runs.run_table import Runs
from kit.analysis.stats.estimators import Floats, mean_centre, student_quantile
from kit.analysis.stats.variance_pooling import PooledEstimate
from kit.core.paths import find_paths
from kit.model.arm import parse_arms
from kit.model.options import SessionOptions
from kit.model.plan import Plan, make_plan
from kit.model.sample import RUN_ORDER, Phase, Sample, run_order
from kit.session.plan.schedule import End, Schedule
from kit.store import open_store

RUN = 10.0  # seconds, at the machine's mean speed
PAUSE = 0.8  # seconds that the harness takes for a run (benchmarks/performance/harness.py)
#: What the logarithm of a run's time errs by itself: what turns of 0.2 to 1 s left of kernel:short, and what copies of
#: a root differ by, which is drawn anew in each round by turns.
LUCK, COPY = 0.006, 0.009
OWN = float(np.hypot(LUCK, COPY))
MINUTES = 10
SELECTIONS = 5000
DUET = "both at once, a CPU each"
Round = Callable[[Machine, Sequence[float], random.Random], list[float]]


def _whole(machine: Machine, work: Sequence[float], order: random.Random) -> list[float]:
    return one_after_the_other(machine, work, PAUSE)


def _turns(seconds: float, machine: Machine, work: Sequence[float], order: random.Random) -> list[float]:
    return by_turns(machine, work, PAUSE, seconds, order)


def _metronome(
    seconds: float, beat: float, machine: Machine, work: Sequence[float], order: random.Random
) -> list[float]:
    return by_metronome(machine, work, PAUSE, seconds, beat)


def _duet(machine: Machine, work: Sequence[float], order: random.Random) -> list[float]:
    """Two arms at once have half of the machine each, for twice as long."""
    took = machine.work_beside([2 * amount for amount in work])
    machine.now += PAUSE * len(work)
    return took


WAYS: dict[str, Round] = {
    "one after the other": _whole,
    **{f"by turns of {seconds:g} s": partial(_turns, seconds) for seconds in (2.5, 1.0, 0.5, 0.2)},
    **{
        f"metronome, {seconds:g} s and {beat:g} s": partial(_metronome, seconds, beat)
        for seconds, beat in ((0.5, 0.1), (0.5, 0.5), (0.2, 0.1))
    },
    DUET: _duet,
}


def rounds(way: Round, arms: int, count: int, recorded: Floats) -> tuple[float, float]:
    """Standard deviation of the log ratio of two runs of a round, and what a round takes, in seconds."""
    logs, seconds = [], []
    for seed in range(count):
        chance = np.random.default_rng(seed)
        machine = Machine(recorded, chance, 60 + 4 * arms * (RUN + PAUSE))
        work = RUN * np.exp(chance.normal(0, OWN, arms))
        real = np.log(way(machine, list(work), random.Random(seed)))
        logs += list(real[1:] - real[0])
        seconds.append(machine.now)
    return float(np.sqrt(np.mean(np.square(logs)))), float(np.mean(seconds))


def half_width(deviation: float, seconds: float) -> float:
    """Of a ratio's 95 % interval, after so many rounds as ``MINUTES`` hold."""
    n = max(2, int(60 * MINUTES / seconds))
    return float(np.expm1(student_quantile(0.975, n - 1) * deviation / np.sqrt(n)))


def print_ways(recorded: Floats, count: int) -> None:
    print(f"{'':28} {'two arms':>26}    {'eight arms':>26}")
    print(f"{'':28} {'ratio':>8} {'block':>8} {f'{MINUTES} min':>8}    {'ratio':>8} {'block':>8} {f'{MINUTES} min':>8}")
    for name, way in WAYS.items():
        if name == DUET and recorded.shape[1] != 2:
            continue
        figures = []
        for arms in (2, 8) if name != DUET else (2,):
            deviation, seconds = rounds(way, arms, count, recorded)
            figures.append(f"{deviation:8.2%} {seconds:6.0f} s {'±':>2}{half_width(deviation, seconds):6.2%}")
        print(f"{name:28} {'    '.join(figures)}", flush=True)


def simulate(plan: Plan, recorded: Floats, seed: int) -> coverage.Tally:
    """One session: the kit's schedule asks for rounds, which run by turns where the plan says so. What copies differ by
    over a whole session is in it."""
    chance = np.random.default_rng(seed)
    copies = {arm: chance.normal(0, COPIES / np.sqrt(2)) for arm in PENALTIES}
    digests = ((RUN_ORDER, run_order(plan.interleave)),)
    machine = Machine(recorded, chance, 3 * len(plan.arms) * (plan.rounds + 2) * (RUN + PAUSE))
    order = random.Random(seed)
    schedule = Schedule(plan, PENALTIES)
    samples: list[Sample] = []
    while not isinstance(round_ := schedule.next(samples), End):
        penalties = np.array([PENALTIES[str(step.arm)] + copies[str(step.arm)] for step in round_.steps])
        work = list(RUN * np.exp(penalties + chance.normal(0, OWN, len(penalties))))
        real = (
            one_after_the_other(machine, work, PAUSE)
            if plan.interleave is None
            else by_turns(machine, work, PAUSE, plan.interleave, order)
        )
        samples += [
            Sample(str(step.arm), step.round, step.kind, "ok", machine.now, (Phase("build", "ok", took, steal=0.0),),
                   digests=digests, rerun_of=step.rerun_of)
            for step, took in zip(round_.steps, real, strict=True)
        ]  # fmt: skip
    return coverage.judge(samples, plan, PENALTIES)


def print_sessions(recorded: Floats, count: int, numbers: Sequence[int]) -> bool:
    """Whether turns are within bounds with each of these numbers of rounds."""
    arms = parse_arms(",".join(arm for arm in PENALTIES if "control" not in arm))
    print(f"\n{count} sessions each\n{coverage.HEAD}")
    good = True
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for rounds in numbers:
            for turn in (None, 0.5, 0.2):
                options = SessionOptions(rounds=rounds, seed=1, cache="cold", control=True)
                plan = replace(make_plan(arms, options), interleave=turn)
                tallies = list(pool.map(partial(simulate, plan, recorded), range(count), chunksize=25))
                held = coverage.report(f"{f'turns of {turn:g} s' if turn else 'whole'}, {rounds} rounds", tallies)
                good &= held or turn is None
    return good


def identical(names: Sequence[str], pairs: Sequence[tuple[str, str]], metric: str) -> list[Floats]:
    """Log ratios of two identical arms in every round of the whole run, for each pair in each of these sessions: of
    those named, else of each control and its baseline."""
    store = open_store("", find_paths().data / "kit.db", read_only=True)
    found = []
    for session in map(store.get, names):
        runs, baselines = Runs(session.samples), dict(session.baselines)
        for keys in pairs or [(arm, baselines[arm]) for arm in session.arms if is_control(arm)]:
            both = [(arm, "") for arm in keys]
            phase = runs.phases(both)[-1]
            mine, base = (runs.values(key, phase, metric)[at] for key, at in zip(both, runs.common(both), strict=True))
            found.append(np.log(mine / base))
    return found


def print_identical(groups: Sequence[Floats], rounds: Sequence[int]) -> None:
    """Each pair of a session by itself, then all. F: how much more their means differ than their rounds explain."""
    for logs in groups:
        centre = mean_centre(logs)
        alone, known = centre.interval(), with_error(PooledEstimate(**vars(centre)), COPIES).interval()
        held, all_held = ("misses" if item.leaves_out(0.0) else "holds" for item in (alone, known))
        said = f"{np.expm1(centre.estimate):+.2%}, scatter {logs.std(ddof=1):.2%}"
        print(f"{logs.size:3} rounds: {said}; their interval {held} 1, with what copies err {all_held} it")
    logs = np.concatenate(groups)
    free = logs.size - len(groups)
    within = sum(np.square(item - item.mean()).sum() for item in groups) / free
    between = sum(item.size * item.mean() ** 2 for item in groups) / len(groups)
    print(f"\nidentical arms in {logs.size} rounds: on average {np.expm1(logs.mean()):+.2%}")
    ratio, p = between / within, float(fdtrc(len(groups), free, between / within))
    print(f"scatter within a pair {np.sqrt(within):.2%}; F of the means of {len(groups)} pairs {ratio:.1f} (p {p:.2f})")
    for n in (n for n in rounds if n < logs.size):
        chance = np.random.default_rng(n)
        found = [mean_centre(chance.choice(logs, n, replace=False)).interval() for _ in range(SELECTIONS)]
        share = np.mean([not item.leaves_out(0.0) for item in found])
        width = np.mean([item.high - item.low for item in found if item.high is not None and item.low is not None]) / 2
        print(f"{n:3} of them: the interval of {share:.1%} of {SELECTIONS} selections holds 1; half width {width:.2%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--rounds", default="3,5,10")
    parser.add_argument("--speed", type=Path, default=speed.RECORDED)
    parser.add_argument("--stored", default="", help="sessions with a control, or with the arms of --pairs")
    parser.add_argument("--pairs", default="", help="ARM=ARM,…: identical arms of these")
    parser.add_argument("--metric", default="real", help="of the stored sessions")
    arguments = parser.parse_args()
    numbers = [int(word) for word in arguments.rounds.split(",")]
    if arguments.stored:
        pairs = [(one, other) for one, _, other in (pair.partition("=") for pair in arguments.pairs.split(",")) if one]
        print_identical(identical(arguments.stored.split(","), pairs, arguments.metric), numbers)
        return
    recorded = speed.read(arguments.speed)
    print(f"{len(recorded) * speed.STEP:.0f} s were recorded; runs of {RUN:.0f} s that err by {OWN:.1%} by themselves")
    print_ways(recorded, arguments.sessions)
    good = print_sessions(recorded, arguments.sessions, numbers)
    print(f"turns are {'within' if good else 'OUT OF'} bounds: {coverage.SAID}")
    sys.exit(not good)


if __name__ == "__main__":
    main()
