"""Does the disturbance rule bias a ratio? Made-up sessions through the project's own schedule, rule and comparison.

    python benchmarks/proofs/bursts.py [--sessions 1000]

Two arms, runs of about 10 s with 3 % noise, the second in truth 10.8 % above the first in the mean of logarithms:

  own      a fifth of the second arm's runs take 1.3 times as long by the arm's own doing, and are part of its cost; it
           waits in them, and the machine's pressure shows it
  outside  a tenth of all runs, of either arm, are disturbed for 1.3 times as long; the machine's pressure shows
           it, the arm's own by a tenth of it
  own CPU  as own, but what takes longer is a daemon outside the build's cgroup: outside CPU shows it, no pressure does
  CPU      as outside in 22 % of the runs, by programs that take 0.3 to 1 CPU: outside CPU shows it, no pressure does

Printed: by how many log points the ratio comes out too high or low on average (with its standard error), with reruns
in the place of flagged runs as the kit has it, and without them; how much it scatters; the share of reruns.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace

import numpy as np

from kit.analysis.runs.disturbance import find_bursts
from kit.analysis.runs.run_table import Runs
from kit.analysis.stats.estimators import Floats
from kit.model.arm import parse_arms
from kit.model.options import SessionOptions
from kit.model.plan import Plan, PlanStep, make_plan
from kit.model.sample import PHASE_FIELDS, Phase, Sample
from kit.session.plan.schedule import Round, Schedule, total_comparisons

ARMS = parse_arms("bare,layer:overlay2")
TRUTH = math.log(1.108)
REAL, NOISE, LONGER, USUAL, WAITING = 10.0, 0.03, 1.3, 0.02, 0.25
OWN, OUTSIDE, NEIGHBOURS = 0.2, 0.1, 0.22


@dataclass(frozen=True)
class World:
    own: float  # share of the second arm's runs that are longer by its own doing
    outside: float  # share of all runs that are hit from outside
    cpu: bool = False  # outside CPU shows both, and no pressure

    def run(self, step: PlanStep, random: np.random.Generator) -> Sample:
        second = step.arm == ARMS[1]
        level = TRUTH - self.own * math.log(LONGER) if second else 0.0
        mine = second and random.random() < self.own
        theirs = random.random() < self.outside
        real = REAL * math.exp(level + random.normal(0, NOISE)) * (LONGER if mine else 1) * (LONGER if theirs else 1)
        whole = USUAL + WAITING * (mine or theirs)
        own = USUAL + WAITING * mine + 0.1 * WAITING * (theirs and not mine)
        waits = {"psi_cpu": 0.0, "psi_memory": 0.0, "psi_cpu_own": 0.0, "psi_memory_own": 0.0, "steal": 0.0}
        waits |= {"psi_io": whole * real, "psi_io_own": own * real}
        used = (mine or theirs) * random.uniform(0.3, 1.0)
        if self.cpu:
            waits |= {"psi_io": 0.0, "psi_io_own": 0.0, "outside": (USUAL + used) * real}
        known = {name: value for name, value in waits.items() if name in PHASE_FIELDS}
        phase = replace(Phase("build", "ok", real), **known)  # type: ignore[arg-type]
        return Sample(str(step.arm), step.round, step.kind, "ok", 0.0, (phase,), rerun_of=step.rerun_of)


def session(plan: Plan, world: World, random: np.random.Generator) -> tuple[float, float, int]:
    """Log ratio with reruns and without, and the number of runs made again."""
    schedule = Schedule(plan, [str(arm) for arm in plan.arms])
    samples: list[Sample] = []
    while isinstance(round_ := schedule.next(samples), Round):
        samples += [world.run(step, random) for step in round_.steps]
    reasons = find_bursts(samples)
    flagged = [replace(item, flags=reasons.get((item.arm, item.point, item.round), "")) for item in samples]
    once = [item for item in samples if item.rerun_of is None]
    return _ratio(flagged, plan), _ratio(once, plan), len(samples) - len(once)


def _ratio(samples: list[Sample], plan: Plan) -> float:
    (found,) = total_comparisons(Runs(samples), plan)
    assert found.ratio
    return math.log(found.ratio)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random = np.random.default_rng(arguments.seed)
    print(
        f"{'world':9}{'rounds':>7}{'off by, with repeats':>24}{'without':>18}{'scatter':>10}{'without':>9}{'again':>8}"
    )
    worlds = {
        "own": World(OWN, 0.0), "outside": World(0.0, OUTSIDE), "both": World(OWN, OUTSIDE),
        "own CPU": World(OWN, 0.0, True), "CPU": World(0.0, NEIGHBOURS, True),
    }  # fmt: skip
    for name, world in worlds.items():
        for rounds in (3, 5, 10, 20):
            plan = make_plan(ARMS, SessionOptions(rounds=rounds, seed=1, cache="cold", control=False))
            found = np.array([session(plan, world, random) for _ in range(arguments.sessions)])
            off: Floats = 100 * (found[:, :2] - TRUTH)
            error = off.std(axis=0, ddof=1) / math.sqrt(len(off))
            texts = [f"{mean:+.2f} ± {wide:.2f}" for mean, wide in zip(off.mean(axis=0), error, strict=True)]
            spread = off.std(axis=0, ddof=1)
            again = found[:, 2].mean() / (2 * rounds)
            print(
                f"{name:9}{rounds:7}{texts[0]:>24}{texts[1]:>18}{spread[0]:10.2f}{spread[1]:9.2f}{again:8.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
