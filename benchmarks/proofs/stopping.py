"""Does a session that chooses its own end keep its word? Simulated sessions through the kit's own schedule and ranking.

    python benchmarks/proofs/stopping.py [--sessions 500] [--worlds "equal 1 %;drift"] [--most 40] [--processes 2]
    python benchmarks/proofs/stopping.py --looks [--sessions 4000]     the error over all looks, without stopping

Six picks: one as fast as the reference, one at +0.5 or +1 %, one at +2.9 or +5 %, one at +3.1 %, one at +140 %. Or all
are the same, or all but the reference cost 3.1 %. Beside them bare and a control. A session ends when each pick is
decided, or with ``--most`` rounds, which stand for its budget. Printed for each kind of noise of one run:

- in how many sessions any statement is wrong: an arm that is significantly different with the wrong sign or truly the
  same; an arm that is equivalent though it differs by more than the margin;
- of the statements "equivalent", how many are true; how many of the picks had a verdict;
- how often individual intervals hold at the end, and how often all of a session do at once;
- rounds (mean and median), sessions decided, and half the width of the simultaneous interval (arms below 20 %).

``--looks`` prints the error of simultaneous intervals over all looks to this number of rounds: without widening, and
with kit.analysis.session.stopping's, for one comparison and for six. The last line says whether all is within bounds.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from unittest.mock import patch

import noise
import numpy as np
import speed
from interleaving import OWN, PAUSE, RUN
from reckoned import Machine, by_turns

from kit.analysis.runs.paired import COPIES
from kit.analysis.runs.run_table import Runs
from kit.analysis.session import ranking
from kit.analysis.session.ranking import Ranking, rank
from kit.analysis.session.stopping import widening
from kit.analysis.stats import estimators, variance_pooling
from kit.analysis.stats.estimate import EQUIVALENT, FASTER, SLOWER
from kit.analysis.stats.estimators import Floats
from kit.model.arm import parse_arms
from kit.model.options import SessionOptions
from kit.model.plan import DECIDE_FROM, DEFAULT_MARGIN, Plan, PlanStep, make_plan
from kit.model.sample import RUN_ORDER, Phase, Sample, run_order
from kit.session.plan.schedule import End, Schedule

Truth = Mapping[str, float]
#: What each arm costs, as a ratio: of even sessions, and of odd ones.
EVEN: Truth = {
    "bare": 0.98, "bare+control": 0.98, "layer:overlay2": 1.0, "layer:vfs": 1.0, "bind:overlay2": 1.01,
    "volume:overlay2": 1.029, "layer:podman/overlay": 1.031, "layer:fuse-overlayfs": 2.4,
}  # fmt: skip
ODD: Truth = {**EVEN, "bind:overlay2": 1.005, "volume:overlay2": 1.05}
SAME: Truth = dict.fromkeys(EVEN, 1.0)
BEYOND: Truth = {**dict.fromkeys(EVEN, 1.031), "layer:overlay2": 1.0}
REFERENCE, NOISY = "layer:overlay2", "layer:vfs"
BOUND = 0.05
SLICE = 0.5  # seconds
Times = Callable[[Sequence[PlanStep]], list[float]]
World = Callable[[np.random.Generator, Truth], Times]


def _sequential(
    weather: Callable[[np.random.Generator, int, Floats], noise.Noise],
    scale: float = 1.0,
    noisy: float = 1.0,
    whose: str = NOISY,
) -> World:
    """Runs one after the other. ``scale``: of the weather's noise; ``noisy``: by what factor that arm's is larger."""

    def begin(rng: np.random.Generator, truth: Truth) -> Times:
        deviation = iter(weather(rng, 3000, noise.series_of(argparse.Namespace(session=""))).deviation * scale)

        def times(steps: Sequence[PlanStep]) -> list[float]:
            own = [noisy if str(step.arm) == whose else 1.0 for step in steps]
            penalties = [truth[str(step.arm)] for step in steps]
            return [
                RUN * float(penalty * np.exp(factor * next(deviation)))
                for penalty, factor in zip(penalties, own, strict=True)
            ]

        return times

    return begin


def _interleaved(rng: np.random.Generator, truth: Truth) -> Times:
    """Runs in time slices on the recorded machine, with what copies differ by in a round and over a session."""
    copies = {arm: rng.normal(0, COPIES / np.sqrt(2)) for arm in EVEN}
    machine = Machine(speed.read(), rng, 15_000)
    order = random.Random(int(rng.integers(1 << 30)))

    def times(steps: Sequence[PlanStep]) -> list[float]:
        logs = [np.log(truth[str(step.arm)]) + copies[str(step.arm)] for step in steps]
        work = RUN * np.exp(np.array(logs) + rng.normal(0, OWN, len(steps)))
        return by_turns(machine, list(work), PAUSE, SLICE, order)

    return times


INTERLEAVED = "interleaved, recorded speed"
WORLDS: Mapping[str, World] = {
    "equal 1 %": _sequential(noise.normal, 0.01 / noise.SPREAD),
    "equal 2 %": _sequential(noise.normal, 0.02 / noise.SPREAD),
    "equal 3 %": _sequential(noise.normal),
    "AR(1) 0.6, 2 %": _sequential(noise.dependent, 0.02 / noise.SPREAD),
    "drift": _sequential(noise.drifting, 0.5),
    "heavy tails, 1.9 %": _sequential(noise.heavy),
    "1 %, one arm 3 %": _sequential(noise.normal, 0.01 / noise.SPREAD, 3.0),
    INTERLEAVED: _interleaved,
    "all the same, 1 %": _sequential(noise.normal, 0.01 / noise.SPREAD),
    "all +3.1 %, 1 %": _sequential(noise.normal, 0.01 / noise.SPREAD),
    "1 %, one arm 5 %": _sequential(noise.normal, 0.01 / noise.SPREAD, 5.0),
    "1 %, reference 5 %": _sequential(noise.normal, 0.01 / noise.SPREAD, 5.0, REFERENCE),
    "speed walk, half": _sequential(noise.walking, 0.5),
}
TRUTHS: Mapping[str, Truth] = {"all the same, 1 %": SAME, "all +3.1 %, 1 %": BEYOND}


@dataclass(frozen=True)
class Tally:
    """Of one session: wrong statements of either kind, statements of equivalence and how many of them are true, picks
    that have a verdict, intervals that hold at the end, rounds, whether it was decided, and half a width (log)."""

    significant: bool
    equivalent: bool
    said: int
    true: int
    verdicts: float
    alone: float
    together: bool
    rounds: int
    decided: bool
    half: float


def simulate(plan: Plan, world: str, most: int, seed: int) -> Tally:
    truth = TRUTHS.get(world, ODD if seed % 2 else EVEN)
    times = WORLDS[world](np.random.default_rng(seed), truth)
    digests = ((RUN_ORDER, run_order(plan.interleave)),)
    schedule = Schedule(plan, EVEN)
    samples: list[Sample] = []
    while not isinstance(round_ := schedule.next(samples), End) and round_.number <= most:
        samples += [
            Sample(str(step.arm), step.round, step.kind, "ok", float(len(samples)),
                   (Phase("build", "ok", took, steal=0.0),), digests=digests, rerun_of=step.rerun_of)
            for step, took in zip(round_.steps, times(round_.steps), strict=True)
        ]  # fmt: skip
    rounds = len({item.round for item in samples})
    found = rank(Runs(samples), list(truth), margin=plan.margin, rounds=rounds, baselines=plan.baselines)
    return judge(found[0], truth)


def _none(*given: object) -> tuple[()]:
    """For the comparison with the best: it takes most of a look's time, and neither rule nor figures here ask it."""
    return ()


def judge(found: Ranking, penalties: Truth) -> Tally:
    rows = [(row, row.against, penalties[row.arm]) for row in found.rows if row.against]
    picks = [(row, against, truth) for row, against, truth in rows if row.pick]
    significant = any(against.significant and (against.ratio - 1) * (truth - 1) <= 0 for _, against, truth in rows)
    equal = [truth for row, _, truth in rows if row.verdict == EQUIVALENT]
    true = sum(1 / (1 + found.margin) <= truth <= 1 + found.margin for truth in equal)
    alone = [(against.low or 0) <= truth <= (against.high or 1e9) for _, against, truth in rows]
    together = all((against.low_all or 0) <= truth <= (against.high_all or 1e9) for _, against, truth in rows)
    verdicts = [row.verdict in (EQUIVALENT, SLOWER, FASTER) for row, _, _ in picks]
    half = [np.log((against.high_all or 1) / (against.low_all or 1)) / 2 for _, against, truth in picks if truth < 1.2]
    return Tally(
        significant, true < len(equal), len(equal), true, float(np.mean(verdicts)), float(np.mean(alone)), together,
        found.rounds, found.decided, float(np.mean(half)),
    )  # fmt: skip


HEAD = (
    f"{'':28} {'wrong statement':>27} {'equivalent':>10} {'picks with':>10} {'intervals hold':>14} {'rounds':>11} "
    f"{'':>7} {'half':>5}\n{'':28} {'significant':>11} {'equivalent':>10} {'any':>4} {'are true':>10} "
    f"{'a verdict':>10} {'alone':>6} {'at once':>7} {'mean':>5} {'50 %':>5} {'decided':>7} {'width':>5}"
)


def report(name: str, tallies: Sequence[Tally]) -> bool:
    """Print a row; return whether it is within bounds, three standard errors allowed for."""

    def mean(field: str) -> float:
        return float(np.mean([getattr(item, field) for item in tallies]))

    any_ = float(np.mean([item.significant or item.equivalent for item in tallies]))
    said = sum(item.said for item in tallies)
    chance = 3 * (BOUND * (1 - BOUND) / len(tallies)) ** 0.5
    good = max(mean("significant"), mean("equivalent"), 1 - mean("together")) <= BOUND + chance
    true = f"{sum(item.true for item in tallies) / said:10.1%}" if said else f"{'–':>10}"
    print(
        f"{name:28} {mean('significant'):11.1%} {mean('equivalent'):10.1%} {any_:4.0%} {true} {mean('verdicts'):10.1%} "
        f"{mean('alone'):6.1%} {mean('together'):7.1%} {mean('rounds'):5.1f} "
        f"{np.median([item.rounds for item in tallies]):5.0f} {mean('decided'):7.0%} {mean('half'):5.1%}"
        f"{'' if good else '  <--'}",
        flush=True,
    )
    return bool(good)


def look(arms: int, sessions: int, most: int, seed: int = 1) -> dict[int, tuple[float, float]]:
    """Return by number of rounds in which share of sessions a simultaneous interval against the first arm has missed
    the truth at any look so far: without widening, and with it."""
    values = np.random.default_rng(seed).standard_normal((sessions, arms, most))
    missed, found = np.zeros((2, sessions), bool), {}
    for n in range(DECIDE_FROM, most + 1):
        for session in range(sessions):
            for row, inflation in enumerate((1.0, widening(n))):
                missed[row, session] |= _misses(values[session, :, :n], inflation)
        found[n] = float(missed[0].mean()), float(missed[1].mean())
    return found


def _misses(logs: Floats, inflation: float) -> bool:
    """Return whether any simultaneous interval against the first of arms x rounds leaves out 0, the truth."""
    numbers = np.arange(logs.shape[1])
    contrasts = [
        variance_pooling.Contrast(
            (one, other), estimators.robust_centre(logs[one] - logs[other]), True, other == 0,
            variance_pooling.Values(numbers, logs[one], logs[other]),
        )
        for one, other in ((j, i) for i in range(len(logs)) for j in range(i + 1, len(logs)))
    ]  # fmt: skip
    shared = variance_pooling.share(contrasts, len(logs) - 1, inflation)
    against = [item.interval_together() for item, one in zip(shared, contrasts, strict=True) if one.counted]
    return any(item.leaves_out(0.0) for item in against)


def print_looks(sessions: int, most: int) -> bool:
    print(f"{sessions} sessions; an interval has missed the truth at any look: without widening, with it")
    good = True
    for arms in (2, 7):
        found = look(arms, sessions, most)
        shown = [n for n in (3, 4, 5, 6, 8, 10, 12, 20, 30, 40, 60, 80, 100) if n in found]
        print(f"{arms - 1} comparison{'s' if arms > 2 else ''}:", flush=True)
        for n in shown:
            print(f"    {n:3} rounds {found[n][0]:6.1%} {found[n][1]:6.1%}", flush=True)
        good &= found[min(most, 30)][1] <= BOUND + 3 * (BOUND * (1 - BOUND) / sessions) ** 0.5
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--worlds", default=";".join(WORLDS), help="separated by ';'")
    parser.add_argument("--most", type=int, default=40, help="rounds")
    parser.add_argument("--margin", type=float, default=DEFAULT_MARGIN, help="0.03 for 3 %%")
    parser.add_argument("--looks", action="store_true")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    if arguments.looks:
        good = print_looks(arguments.sessions, arguments.most)
    else:
        print(f"{arguments.sessions} sessions each, {arguments.most} rounds at most")
        print(HEAD)
        good = True
        arms = parse_arms(",".join(arm for arm in EVEN if "control" not in arm))
        without_best = patch.object(ranking, "_outdone", new=_none)
        with without_best, ProcessPoolExecutor(arguments.processes) as executor:
            for world in arguments.worlds.split(";"):
                interleave = SLICE if world == INTERLEAVED else None
                options = SessionOptions(seed=1, cache="cold", control=True, margin=arguments.margin)
                plan = replace(make_plan(arms, options), interleave=interleave)
                first = list(WORLDS).index(world) * 1_000_000
                seeds = range(first, first + arguments.sessions)
                play = partial(simulate, plan, world, arguments.most)
                good &= report(world, list(executor.map(play, seeds, chunksize=5)))
    print(f"{'within' if good else 'OUT OF'} bounds: wrong in {BOUND:.0%} at most, three standard errors allowed for")
    sys.exit(not good)


if __name__ == "__main__":
    main()
