"""Do intervals of a session's parts hold? Steps of a ladder, growth, tasks, groups of calls, limits of nights.

    python benchmarks/proofs/parts.py [--sessions 1000] [--rounds 3,5,10] [--parts "ladder;growth"]

Sessions are made up of logarithmic normal noise of 3 % a run, and analysed by the kit's own functions. Printed for each
part and number of rounds: how often individual intervals hold, on average and of the one that does so least; how often
all simultaneous intervals of a table hold, where it has such; and the mean half width of individual intervals.
*noisy*: the arm of the second rung, or of the figure, is five times as noisy. *far*: the last arm takes 2.4 times as
long. *limits*: eight thresholds that are each just reached: in how many sessions any is said to be crossed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from kit.analysis.runs.compare import compare
from kit.analysis.runs.run_table import Runs
from kit.analysis.session.analyse import growths
from kit.analysis.session.ladder import FLUSH, climb
from kit.analysis.session.tasks import KIND, compare_tasks
from kit.analysis.stats.estimate import Interval
from kit.extra.tracing.analysis.calls import compare_calls
from kit.model.sample import Call, Phase, Sample
from kit.parsers.task import BuildTask

SPREAD, TIMES = 0.03, 5.0
#: The truth, and the intervals: individual, and simultaneous where there is one.
Found = tuple[float, Interval, Interval | None]
Session = Callable[[np.random.Generator, int], Iterator[Found]]
RUNGS = {"bare": 10.0, "runtime:overlay2": 10.1, "bind:overlay2": 10.6, "layer:overlay2": 11.2}
JOBS = (1, 2, 4)
KINDS = {"compile": 9.0, "configure": 3.0, "install": 2.0, "unpack": 1.0}
CALLS = {"openat": 0.4, "newfstatat": 0.2, "read": 0.1, "unlinkat": 0.2}
LIMIT = 1.1


def _times(rng: np.random.Generator, costs: Mapping[str, float], noisy: str = "") -> dict[str, float]:
    return {arm: cost * math.exp(rng.normal(0, SPREAD * (TIMES if arm == noisy else 1))) for arm, cost in costs.items()}


def _sample(arm: str, round_: int, phase: Phase, point: str = "", kind: str = "measured") -> Sample:
    return Sample(arm, round_, kind, "ok", 0.0, (phase,), point=point)


def _ladder(costs: Mapping[str, float], noisy: str = "") -> Session:
    def session(rng: np.random.Generator, rounds: int) -> Iterator[Found]:
        samples = [
            _sample(arm, round_, Phase("p", "ok", took, flush=0.0))
            for round_ in range(rounds)
            for arm, took in _times(rng, costs, noisy).items()
        ]
        pairs = [(arm, "bare") for arm in list(costs)[1:]]
        (found,) = (item for item in climb(Runs(samples), pairs, list(costs)) if item.cost == "real")
        mean = {arm: cost * math.exp((SPREAD * (TIMES if arm == noisy else 1)) ** 2 / 2) for arm, cost in costs.items()}
        for step in (*found.steps, found.whole):
            if step.name != FLUSH:
                yield mean[step.upper] - mean[step.lower], step.seconds, None

    return session


def _growth(noisy: str = "") -> Session:
    def session(rng: np.random.Generator, rounds: int) -> Iterator[Found]:
        samples = [
            _sample(arm, round_, Phase("p", "ok", took), f"jobs={jobs}")
            for round_ in range(rounds)
            for jobs in JOBS
            for arm, took in _times(rng, RUNGS, noisy).items()
        ]
        for item in growths(Runs(samples), [(arm, "bare") for arm in list(RUNGS)[1:]]):
            yield 1.0, item.factor, None

    return session


def _tasks(noisy: str = "") -> Session:
    def session(rng: np.random.Generator, rounds: int) -> Iterator[Found]:
        samples = []
        for round_ in range(rounds):
            for arm in RUNGS:
                took = _times(rng, KINDS, noisy if arm == "layer:overlay2" else "")
                tasks = tuple(BuildTask(kind, "zip", 0.0, cost, cost, 0.0) for kind, cost in took.items())
                samples.append(_sample(arm, round_, Phase("p", "ok", 20.0, 15.0, 1.0, tasks=tasks)))
        for item in compare_tasks(Runs(samples), [(arm, "bare") for arm in list(RUNGS)[1:]]):
            made = item.comparison
            if item.by == KIND and made.metric == "cpu" and made.ratio:
                yield (
                    1.0,
                    Interval(made.ratio, made.low, made.high, made.n),
                    Interval(made.ratio, made.low_all, made.high_all, made.n),
                )

    return session


def _calls(noisy: str = "") -> Session:
    def session(rng: np.random.Generator, rounds: int) -> Iterator[Found]:
        samples = []
        for kind in ("measured", "traced"):
            for round_ in range(1, rounds + 1):
                for arm in RUNGS:
                    took = _times(rng, CALLS, noisy if arm == "layer:overlay2" else "")
                    user, sys = (cost * math.exp(rng.normal(0, SPREAD)) for cost in (2.0, sum(took.values())))
                    rows = tuple(Call(name, 1000, cost) for name, cost in took.items()) if kind == "traced" else ()
                    samples.append(
                        _sample(arm, round_, Phase("p", "ok", 3.0, user, sys, user, sys, calls=rows), kind=kind)
                    )
        for item in compare_calls(samples, Runs(samples), [(arm, "bare") for arm in list(RUNGS)[1:]]):
            for part in sorted(item.groups, key=lambda part: part.group):  # not by what was found
                yield 0.0, part.difference, None

    return session


def _limits(rng: np.random.Generator, rounds: int) -> Iterator[Found]:
    costs = {"bare": 10.0} | {f"layer:{number}": 10.0 * LIMIT for number in range(8)}
    samples = [
        _sample(arm, round_, Phase("p", "ok", took))
        for round_ in range(rounds)
        for arm, took in _times(rng, costs).items()
    ]
    for item in compare(samples, [(arm, "bare") for arm in list(costs)[1:]], ("real",)):
        yield (
            LIMIT,
            Interval(item.ratio or 0.0, item.low_among(8), math.inf, item.n),
            Interval(item.ratio or 0.0, item.low_among(8), math.inf, item.n),
        )


PARTS: dict[str, Session] = {
    "ladder": _ladder(RUNGS),
    "ladder, noisy": _ladder(RUNGS, "runtime:overlay2"),
    "ladder, far": _ladder({**RUNGS, "layer:overlay2": 24.0}),
    "growth": _growth(),
    "growth, noisy": _growth("layer:overlay2"),
    "tasks": _tasks(),
    "tasks, noisy": _tasks("compile"),
    "calls": _calls(),
    "calls, noisy": _calls("openat"),
    "limits": _limits,
}


def report(name: str, session: Session, rounds: int, count: int) -> None:
    held: list[list[bool]] = []
    together, half = [], []
    for seed in range(count):
        found = list(session(np.random.default_rng((rounds, seed)), rounds))
        held.append([not one.leaves_out(truth) for truth, one, _ in found])
        together.append(not any(all_.leaves_out(truth) for truth, _, all_ in found if all_))
        half += [one.high - one.estimate for _, one, _ in found if one.high is not None and one.high < math.inf]
    each = np.mean(held, axis=0)
    simultaneous = f"{np.mean(together):6.1%}" if found[0][2] else f"{'–':>6}"
    width = f"{np.mean(half):8.4f}" if half else f"{'–':>8}"
    print(f"{f'{name}, {rounds} rounds':28} {each.mean():6.1%} {each.min():6.1%} {simultaneous} {width}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--rounds", default="3,5,10")
    parser.add_argument("--parts", default=";".join(PARTS), help="separated by ';'")
    arguments = parser.parse_args()
    print(f"{arguments.sessions} sessions each\n{'':28} {'mean':>6} {'worst':>6} {'all':>6} {'half':>8}")
    for name in arguments.parts.split(";"):
        for rounds in map(int, arguments.rounds.split(",")):
            report(name, PARTS[name], rounds, arguments.sessions)


if __name__ == "__main__":
    main()
