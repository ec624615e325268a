"""Do moderated variances hold, and how near do they come to known noise? Eight arms and a baseline, without schedule.

    python benchmarks/proofs/pooling.py [--sessions 1000] [--rounds 3,5,10] [--worlds "equal;one arm 5 x"]

For each kind of noise, first of the eight comparisons with the baseline, then of all 36 pairs: how often the individual
interval holds, on average and of the comparison for which it does so least; how often all simultaneous intervals hold;
their mean half width, that of an oracle which knows each comparison's error, and the ratio of the two.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from kit.analysis.stats.estimators import CONFIDENCE, Floats, robust_centre
from kit.analysis.stats.variance_pooling import Contrast, Values, share

ARMS = 9
SPREAD = 0.03
Shape = tuple[int, int, int]  # sessions, rounds, arms
World = Callable[[np.random.Generator, Shape], Floats]


def _arm(place: int, times: float) -> World:
    return lambda rng, shape: rng.normal(0, [times if arm == place else 1.0 for arm in range(ARMS)], shape)


def _random(rng: np.random.Generator, shape: Shape) -> Floats:
    values: Floats = np.exp(rng.normal(0, 0.35, (shape[0], 1, ARMS))) * rng.standard_normal(shape)
    return values


def _heavy(rng: np.random.Generator, shape: Shape) -> Floats:
    return rng.standard_t(3, shape) / float(np.sqrt(3))


def _bursts(rng: np.random.Generator, shape: Shape) -> Floats:
    return rng.standard_normal(shape) + (rng.random(shape) < 0.1) * rng.uniform(2, 13, shape)


def _in_order(series: Floats, rng: np.random.Generator, shape: Shape) -> Floats:
    """Runs one after the other, arms of a round in random order."""
    rows = series.reshape(shape)
    return np.take_along_axis(rows, np.argsort(rng.random(shape), axis=2), axis=2)


def _drift(rng: np.random.Generator, shape: Shape) -> Floats:
    series = rng.standard_normal((shape[0], shape[1] * ARMS))
    for run in range(1, series.shape[1]):
        series[:, run] = 0.8 * series[:, run - 1] + 0.6 * series[:, run]
    return _in_order(series, rng, shape)


def _walk(rng: np.random.Generator, shape: Shape) -> Floats:
    steps = rng.standard_normal((shape[0], shape[1] * ARMS))
    return _in_order(np.cumsum(steps, axis=1) / 3 + rng.normal(0, 0.5, steps.shape), rng, shape)


def _groups(rng: np.random.Generator, shape: Shape) -> Floats:
    """Two groups of arms, of each of which a part of the noise is common."""
    common = rng.normal(0, 0.7, (*shape[:2], 1)) * np.where(np.arange(ARMS) % 2, 1, -1)
    return rng.standard_normal(shape) + common


WORLDS: dict[str, World] = {
    "equal": _arm(0, 1.0),
    "AR(1) 0.8": _drift,
    "heavy tails": _heavy,
    "bursts": _bursts,
    "speed walk": _walk,
    "one arm 5 x": _arm(ARMS - 1, 5.0),
    "baseline 5 x": _arm(0, 5.0),
    "random variances": _random,
    "one arm 2.7 x": _arm(ARMS - 1, 8 / 3),
    "baseline 2 x": _arm(0, 2.0),
    "two groups": _groups,
}


def contrasts(logs: Floats, pairs: Sequence[tuple[int, int]]) -> list[Contrast]:
    """The comparisons of one session. ``logs``: rounds x arms."""
    rounds = np.arange(len(logs))
    return [
        Contrast((one, other), robust_centre(logs[:, one] - logs[:, other]), True, True,
                 Values(rounds, logs[:, one], logs[:, other]))
        for one, other in pairs
    ]  # fmt: skip


def measure(sessions: Floats, pairs: Sequence[tuple[int, int]]) -> str:
    held, together, half, errors = [], [], [], []
    for logs in sessions:
        found = share(contrasts(logs, pairs), len(pairs))
        wide = [item.interval_together() for item in found]
        held.append([not item.interval().leaves_out(0.0) for item in found])
        together.append(not any(item.leaves_out(0.0) for item in wide))
        half.append(np.mean([(item.high or 0.0) - item.estimate for item in wide]))
        errors.append([abs(item.estimate) for item in found])
    each, away = np.mean(held, axis=0), np.array(errors)
    spread = np.sqrt((away**2).mean(axis=0))
    known = float(np.quantile((away / spread).max(axis=1), CONFIDENCE) * spread.mean())
    wide_ = float(np.mean(half))
    return (f"{each.mean():6.1%} {each.min():6.1%} {np.mean(together):6.1%} {wide_:6.1%} {known:6.1%} "
            f"{wide_ / known:5.2f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--rounds", default="3,5,10")
    parser.add_argument("--worlds", default=";".join(WORLDS), help="separated by ';'")
    arguments = parser.parse_args()
    head = f"{'mean':>6} {'worst':>6} {'all':>6} {'half':>6} {'oracle':>6} {'ratio':>5}"
    print(f"{'':20} {head}  | {head}")
    for rounds in map(int, arguments.rounds.split(",")):
        for name in arguments.worlds.split(";"):
            sessions = SPREAD * WORLDS[name](np.random.default_rng(rounds), (arguments.sessions, rounds, ARMS))
            star = measure(sessions, [(arm, 0) for arm in range(1, ARMS)])
            pairs = measure(sessions, list(combinations(range(ARMS), 2)))
            print(f"{f'{name}, {rounds}':20} {star}  | {pairs}", flush=True)


if __name__ == "__main__":
    main()
