"""Does a bisection err as seldom as it says, and how many rounds does it take? Simulated machines through the kit's own
schedule, test and search.

    python benchmarks/proofs/bisection.py [--bisections 400] [--commits 16] [--slowdowns 0.1] [--worlds drift]
    python benchmarks/proofs/bisection.py --tests [--sessions 20000]      one step's test, beside others

A slowdown is planted in one of the commits, at random. Printed for each kind of noise of one run and each slowdown: how
many answers are wrong, name no single commit, and how many rounds of two runs an answer took. With a slowdown of 0
every commit that is named is wrong.

``--tests``: how often one step is wrong and how many rounds it takes, if the log ratios of rounds are independent and
normal: the kit's test with several priors (``EFFECT``), and Student's t with the widening of sessions that choose their
end. The last line says whether all is within bounds.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import noise
import numpy as np
import speed
from interleaving import OWN, PAUSE, RUN
from reckoned import Machine, by_turns

from kit.analysis.bisection.bisection import FOUND, NO_SLOWDOWN, Bisection, BisectionStep, Candidate
from kit.analysis.bisection.search import search
from kit.analysis.runs.paired import COPIES
from kit.analysis.session.slowdown import judge_slowdown
from kit.analysis.session.stopping import widening
from kit.analysis.stats import sequential
from kit.analysis.stats.estimators import student_quantile
from kit.model.arm import parse_arms
from kit.model.default import AUTO_ROUNDS
from kit.model.plan import DECIDE_FROM, MOST_ROUNDS, PlanStep, SlowdownTest, make_plan
from kit.model.sample import RUN_ORDER, Phase, Sample, run_order
from kit.session.plan.schedule import End, Schedule

ARMS = parse_arms("layer:overlay2+rev=good,layer:overlay2+rev=new")
GOOD, NEW = map(str, ARMS)
SLICE = 0.5  # seconds
Times = Callable[[Sequence[PlanStep]], list[float]]
#: Makes the machine of one session, for what the new revision costs, as a ratio.
World = Callable[[np.random.Generator, float], Times]
Weather = Callable[[np.random.Generator, int, noise.Floats], noise.Noise]


def _sequential(weather: Weather, scale: float = 1.0) -> World:
    """Runs one after the other. ``scale``: of the weather's noise."""

    def begin(rng: np.random.Generator, penalty: float) -> Times:
        series = noise.series_of(argparse.Namespace(session=""))
        deviation = iter(weather(rng, 2 * MOST_ROUNDS + 2, series).deviation * scale)

        def times(steps: Sequence[PlanStep]) -> list[float]:
            costs = [penalty if str(step.arm) == NEW else 1.0 for step in steps]
            return [RUN * float(cost * np.exp(next(deviation))) for cost in costs]

        return times

    return begin


def _interleaved(rng: np.random.Generator, penalty: float) -> Times:
    """Runs in time slices on the recorded machine, with what copies differ by in a round and over a session."""
    copies = dict(zip((GOOD, NEW), rng.normal(0, COPIES / np.sqrt(2), 2), strict=True))
    machine = Machine(speed.read(), rng, 2 * MOST_ROUNDS * (RUN + PAUSE) * 1.5)
    order = random.Random(int(rng.integers(1 << 30)))

    def times(steps: Sequence[PlanStep]) -> list[float]:
        logs = [copies[str(step.arm)] + (np.log(penalty) if str(step.arm) == NEW else 0.0) for step in steps]
        return by_turns(
            machine, list(RUN * np.exp(np.array(logs) + rng.normal(0, OWN, len(steps)))), PAUSE, SLICE, order
        )

    return times


INTERLEAVED = "interleaved, recorded speed"
WORLDS: Mapping[str, World] = {
    "equal 1 %": _sequential(noise.normal, 0.01 / noise.SPREAD),
    "equal 2 %": _sequential(noise.normal, 0.02 / noise.SPREAD),
    "equal 3 %": _sequential(noise.normal),
    "AR(1) 0.6, 2 %": _sequential(noise.dependent, 0.02 / noise.SPREAD),
    "recorded": _sequential(noise.recorded),
    "drift": _sequential(noise.drifting),
    "speed walk": _sequential(noise.walking),
    "disturbances": _sequential(noise.bursting),
    "heavy tails, 1.9 %": _sequential(noise.heavy),
    INTERLEAVED: _interleaved,
}


@dataclass(frozen=True)
class Tally:
    wrong: bool
    unnamed: bool
    rounds: int


def play(world: str, penalty: float, test: SlowdownTest, rng: np.random.Generator) -> list[Sample]:
    """Return the runs of one step."""
    plan = make_plan(
        ARMS, AUTO_ROUNDS, int(rng.integers(1, 1 << 30)), "cold", ARMS[0], control=False, rerun=False,
        interleave=SLICE if world == INTERLEAVED else None, test=test,
    )  # fmt: skip
    digests = ((RUN_ORDER, run_order(plan.interleave)),)
    schedule, times = Schedule(plan, (GOOD, NEW)), WORLDS[world](rng, penalty)
    samples: list[Sample] = []
    while not isinstance(round_ := schedule.next(samples), End):
        samples += [
            Sample(str(step.arm), step.round, step.kind, "ok", 0.0, (Phase("run", "ok", took),), digests=digests)
            for step, took in zip(round_.steps, times(round_.steps), strict=True)
        ]
    return samples


def simulate(world: str, slowdown: float, commits: int, threshold: float, error: float, seed: int) -> Tally:
    rng = np.random.default_rng(seed)
    listed = [Candidate(str(i), str(i)) for i in range(commits)]
    planted = int(rng.integers(commits))

    def measure(candidate: Candidate, share: float) -> BisectionStep:
        test = SlowdownTest(threshold, share)
        samples = play(world, 1 + slowdown * (int(candidate.id) >= planted), test, rng)
        found = judge_slowdown(samples, NEW, GOOD, test)
        return BisectionStep(candidate, found.verdict, found, share)

    return judge(search(Candidate("good", ""), listed, "layer:overlay2", threshold, error, measure), slowdown, planted)


def judge(found: Bisection, slowdown: float, planted: int) -> Tally:
    if found.result == FOUND:
        wrong = not slowdown or found.suspects[0].id != str(planted)
    else:
        wrong = found.result == NO_SLOWDOWN and slowdown > 0
    return Tally(wrong, found.result not in (FOUND, NO_SLOWDOWN), found.rounds)


def print_bisections(arguments: argparse.Namespace, error: float) -> bool:
    print(f"{arguments.bisections} bisections of {arguments.commits} commits each, threshold {arguments.threshold:.0%}")
    print(f"{'':28} {'slowdown':>8} {'wrong':>7} {'unnamed':>8} {'rounds':>7} {'90 %':>5}")
    good = True
    with ProcessPoolExecutor(arguments.processes) as pool:
        for world in arguments.worlds.split(";"):
            for number, slowdown in enumerate(map(float, arguments.slowdowns.split(","))):
                first = 1_000_000 * (100 * list(WORLDS).index(world) + number)
                step = partial(simulate, world, slowdown, arguments.commits, arguments.threshold, error)
                tallies = list(pool.map(step, range(first, first + arguments.bisections), chunksize=5))
                wrong = float(np.mean([item.wrong for item in tallies]))
                rounds = [item.rounds for item in tallies]
                within = wrong <= error + 3 * (error * (1 - error) / len(tallies)) ** 0.5
                good &= within
                print(
                    f"{world:28} {slowdown:8.1%} {wrong:7.2%} {np.mean([item.unnamed for item in tallies]):8.2%} "
                    f"{np.mean(rounds):7.1f} {np.quantile(rounds, 0.9):5.0f}{'' if within else '  <--'}",
                    flush=True,
                )
    return good


Quantile = Callable[[int, float], float]


@dataclass(frozen=True)
class Rates:
    """Of many sessions: shares of slow verdicts and of undecided ones, and the mean number of rounds."""

    slow: float
    undecided: float
    rounds: float


def student(n: int, error: float) -> float:
    """Return Student's quantile with the widening that stopping.py simulates."""
    return student_quantile(1 - error / widening(n), n - 1)


def test_alone(quantile: Quantile, mean: float, spread: float, limit: float, error: float, sessions: int) -> Rates:
    """Simulate one step's test alone, of all sessions at the same time."""
    values = np.random.default_rng(1).normal(mean, spread, (sessions, MOST_ROUNDS))
    sums, squares = np.cumsum(values, 1), np.cumsum(values * values, 1)
    slow, alive, rounds = np.zeros(sessions, bool), np.ones(sessions, bool), np.full(sessions, MOST_ROUNDS)
    for n in range(DECIDE_FROM, MOST_ROUNDS + 1):
        centre = sums[:, n - 1] / n
        deviation = np.sqrt(np.maximum(squares[:, n - 1] - n * centre * centre, 0) / (n - 1))
        half = np.minimum(quantile(n, error), 1e6) * deviation / np.sqrt(n)
        above, below = centre - half > 0, centre + half < limit
        ends = alive & (above | below) & np.isfinite(quantile(n, error))
        slow |= ends & above & (~below | (centre >= limit / 2))
        rounds[ends], alive = n, alive & ~ends
    return Rates(float(slow.mean()), float(alive.mean()), float(rounds.mean()))


def print_tests(sessions: int, threshold: float, error: float) -> bool:
    limit = float(np.log1p(threshold))
    print(f"{sessions} sessions each, error of a verdict {error:.1%}, threshold {threshold:.0%}; spread of a log ratio")
    print(f"{'':24} {'spread':>7}   {'0: wrong':>9} {'rounds':>7}   {threshold:>5.0%}: wrong {'rounds':>7}   "
          f"{2 * threshold:>5.0%}: rounds")  # fmt: skip
    good = True
    chosen = sequential.EFFECT
    for spread in (0.01, 0.02, 0.03, 0.05):
        for name, effect in [
            *((f"prior {effect:g}", effect) for effect in (1.0, 2.0, 3.0, 5.0, 8.0)),
            ("Student", 0.0),
        ]:
            sequential.EFFECT = effect or chosen
            sequential.sequential_quantile.cache_clear()
            quantile = sequential.sequential_quantile if effect else student
            none, some, twice = (
                test_alone(quantile, mean, spread, limit, error, sessions)
                for mean in (0.0, limit, float(np.log1p(2 * threshold)))
            )
            wrong = none.slow, 1 - some.slow - some.undecided
            within = max(wrong) <= error + 3 * (error / sessions) ** 0.5
            good &= within or not effect
            print(
                f"{name:24} {spread:7.0%}   {wrong[0]:9.2%} {none.rounds:7.1f}   {wrong[1]:12.2%} {some.rounds:7.1f}   "
                f"{twice.rounds:13.1f}{'' if within else '  <--'}",
                flush=True,
            )
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bisections", type=int, default=400)
    parser.add_argument("--commits", type=int, default=16)
    parser.add_argument("--slowdowns", default="0,0.05,0.1", help="0.05 for 5 %%")
    parser.add_argument("--threshold", type=float, default=0.05)
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--worlds", default=";".join(WORLDS), help="separated by ';'")
    parser.add_argument("--tests", action="store_true")
    parser.add_argument("--sessions", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    error = 1 - arguments.confidence
    steps = 1 + (arguments.commits - 1).bit_length()
    if arguments.tests:
        good = print_tests(arguments.sessions, arguments.threshold, error / steps)
    else:
        good = print_bisections(arguments, error)
    print(f"{'within' if good else 'OUT OF'} bounds: wrong in {error:.0%} at most, three standard errors allowed for")
    sys.exit(not good)


if __name__ == "__main__":
    main()
