"""How often does what the answer predicts come true? Simulated sessions through the kit's own ranking and outlook.

    python benchmarks/proofs/outlook.py [--sessions 100] [--truths "equal;N(0, 2 %)"] [--looks 3,5,8] [--processes 2]

A session has a reference and five more picks, with normal noise of 1.28 % a run: what identical runs differed by in a
quiet session of kernel:short. Its rounds are interleaved, and copies of the same files differ for the whole session, as
kit.analysis.runs.paired says. It ends when each pick is decided, or with 100 rounds. After 3, 5 and 8 rounds it is
asked what it predicts, as the first screen does, and then it goes on. The truths:

- all picks are the same; three cost 4 % more than the reference and two 3 % less; their costs scatter normally by 2 %;
- all are the same with a noise of 6 %, where few arms are decided in 100 rounds.

Printed for each truth and number of rounds: sessions that were undecided; in how many of them the 80 % range of further
rounds contained the true number, and in how many the truth was below or above it; its ends and its middle (medians),
and the true number; how many arms "100 rounds would probably not decide", and how many they did decide; and in how many
of the answers that say "at most X % apart" this is true. The last line says whether all is within bounds.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from statistics import median

import numpy as np

from kit.analysis.runs.paired import COPIES
from kit.analysis.runs.run_table import Runs
from kit.analysis.session.outlook import SURE, find_outlook
from kit.analysis.session.ranking import Ranking, racing, rank
from kit.analysis.stats.estimators import RANGE, Floats
from kit.model.default import AUTO_ROUNDS
from kit.model.plan import DECIDE_FROM, MOST_ROUNDS
from kit.model.sample import INTERLEAVED, RUN_ORDER, Phase, Sample
from kit.model.session import DONE, Request, Session
from kit.report.text.advice import advice

ARMS = ("layer:overlay2", "bind:overlay2", "volume:overlay2", "layer:btrfs", "layer:vfs", "layer:podman/overlay")
SCATTER = 0.0128  # of a run, as a logarithm
SECONDS = 60.0  # of a round
CONFIDENCE = 0.95
#: The range may hold as much less often than it says.
LESS = 0.05


@dataclass(frozen=True)
class World:
    """``costs``: of the arms, as logarithms; ``noise``: standard deviation of a run."""

    costs: Callable[[np.random.Generator], Floats]
    noise: float = SCATTER


def _equal(rng: np.random.Generator) -> Floats:
    return np.zeros(len(ARMS))


def _mixed(rng: np.random.Generator) -> Floats:
    costs: Floats = np.log([1.0, 1.04, 0.97, 1.04, 0.97, 1.04])
    return costs


def _scattered(rng: np.random.Generator) -> Floats:
    return rng.normal(0, 0.02, len(ARMS))


WORLDS: Mapping[str, World] = {
    "equal": World(_equal),
    "+4/-3 %": World(_mixed),
    "N(0, 2 %)": World(_scattered),
    "equal, noise 6 %": World(_equal, 0.06),
}


@dataclass
class Prediction:
    """What a session says after ``rounds``, and what came. ``needed``: the range and its middle, in further rounds;
    None without an undecided arm that may be decided. ``apart``: whether the arms are as near as is said; None where
    nothing is said."""

    rounds: int
    needed: tuple[float, float, float] | None
    hopeless: frozenset[str]
    apart: bool | None
    took: float = math.inf
    decided: set[str] = field(default_factory=set)


def simulate(truth: str, looks: Sequence[int], seed: int) -> list[Prediction]:
    """Play a session to its end."""
    rng = np.random.default_rng([seed, list(WORLDS).index(truth)])
    world = WORLDS[truth]
    costs = world.costs(rng)
    means = costs + rng.normal(0, COPIES / math.sqrt(2), len(ARMS))
    digests = ((RUN_ORDER, INTERLEAVED),)
    samples: list[Sample] = []
    predictions: list[Prediction] = []
    running, began = frozenset(ARMS), 0.0
    for number in range(1, MOST_ROUNDS + 1):
        times = 10 * np.exp(means + rng.normal(0, world.noise, len(ARMS)))
        began += SECONDS * len(running) / len(ARMS)
        samples += [
            Sample(arm, number, "measured", "ok", began, (Phase("build", "ok", float(took)),), digests=digests)
            for arm, took in zip(ARMS, times, strict=True)
            if arm in running
        ]
        if number < DECIDE_FROM:
            continue
        now = rank(Runs(samples), ARMS, rounds=number, with_best=number in looks)[0]
        undecided = {row.arm for row in now.undecided}
        for earlier in predictions:
            earlier.decided |= earlier.hopeless - undecided
            if not undecided - earlier.hopeless:
                earlier.took = min(earlier.took, number - earlier.rounds)
        if not undecided:
            break
        running = racing([now], ())
        if number in looks:
            predictions.append(predict(samples, now, number, dict(zip(ARMS, map(float, costs), strict=True))))
    return predictions


def predict(samples: Sequence[Sample], now: Ranking, rounds: int, costs: Mapping[str, float]) -> Prediction:
    session = Session(
        "a", 0.0, "1", "t", DONE, Request(rounds=AUTO_ROUNDS), ARMS, (), 1, samples=tuple(samples)
    )  # fmt: skip
    outlook = find_outlook(session, [now])
    each = SECONDS * len(racing([now], ())) / len(ARMS)
    low, typical, high = (seconds / each for seconds in outlook.seconds or (math.nan,) * 3)
    needed = (low, typical, high) if outlook.seconds else None
    return Prediction(rounds, needed, frozenset(arm for arm, _ in outlook.hopeless), is_near(now, costs))


def is_near(now: Ranking, costs: Mapping[str, float]) -> bool | None:
    """Return whether the arms of the first line are as near as it says."""
    line = advice(now)[0]
    bound = re.search(r"at most ([\d.]+) % apart", line)
    if not bound:
        return None
    named = [costs[arm] for arm in ARMS if re.search(rf"{re.escape(arm)}(?![\w/])", line)]
    return max(named) - min(named) <= math.log1p(float(bound[1]) / 100)


HEAD = (
    f"{'':18} {'rounds':>6} {'un-':>7} {'range':>6} {'truth is':>13} {'predicted':>22} {'truly':>6} "
    f"{'not to be':>9} {'but':>7} {'at most X % apart':>18}\n"
    f"{'':18} {'so far':>6} {'decided':>7} {'holds':>6} {'below':>6} {'above':>6} {'low':>6} {'typical':>8} "
    f"{'high':>6} {'':>6} {'decided':>9} {'decided':>7} {'said':>9} {'holds':>8}"
)


def report(truth: str, rounds: int, found: Sequence[Prediction]) -> bool:
    """Print a row; return whether it is within bounds, three standard errors allowed for."""
    ranges = [(item.needed, item.took) for item in found if item.needed]
    below = [took < low for (low, _, _), took in ranges]
    above = [took > high for (_, _, high), took in ranges]
    holds = [not (one or other) for one, other in zip(below, above, strict=True)]
    hopeless = sum(len(item.hopeless) for item in found)
    false = sum(len(item.decided) for item in found)
    near = [item.apart for item in found if item.apart is not None]
    middle = [_middle([needed[i] for needed, _ in ranges]) for i in range(3)]
    right = [True] * (hopeless - false) + [False] * false
    good = _often(holds, RANGE - LESS) and _often(right, SURE) and _often(near, CONFIDENCE)
    print(
        f"{truth:18} {rounds:6} {len(found):7} {_share(holds):>6} {_share(below):>6} {_share(above):>6} {middle[0]:>6} "
        f"{middle[1]:>8} {middle[2]:>6} {_middle([took for _, took in ranges]):>6} {hopeless:9} {false:7} "
        f"{len(near):9} {_share(near):>8}{'' if good else '  <--'}",
        flush=True,
    )
    return good


def _middle(rounds: Sequence[float]) -> str:
    return f"{median(rounds):.0f}" if rounds else "–"


def _share(held: Sequence[bool]) -> str:
    return f"{sum(held) / len(held):.0%}" if held else "–"


def _often(held: Sequence[bool], wanted: float) -> bool:
    return not held or sum(held) / len(held) >= wanted - 3 * (wanted * (1 - wanted) / len(held)) ** 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--truths", default=";".join(WORLDS), help="separated by ';'")
    parser.add_argument("--looks", default="3,5,8", help="after these numbers of rounds")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    looks = [int(number) for number in arguments.looks.split(",")]
    print(f"{arguments.sessions} sessions each; predictions in further rounds")
    print(HEAD)
    good = True
    with ProcessPoolExecutor(arguments.processes) as executor:
        for truth in arguments.truths.split(";"):
            play = partial(simulate, truth, looks)
            played = list(executor.map(play, range(arguments.sessions), chunksize=2))
            for rounds in looks:
                found = [item for session in played for item in session if item.rounds == rounds]
                good &= report(truth, rounds, found)
    print(f"{'within' if good else 'OUT OF'} bounds: three standard errors allowed for")
    sys.exit(not good)


if __name__ == "__main__":
    main()
