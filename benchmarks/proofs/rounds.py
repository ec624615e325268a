"""How many runs until a ratio is known to ±2 %: in the kit's rounds, and in a fixed sequence without rounds.

    python benchmarks/proofs/rounds.py [--sessions 2000]

Known means: in 95 % of the simulated sessions the estimate lies within 2 % of the truth, whatever interval goes with
it. The fixed sequence is what a command-line timer does: all runs of one command, then all runs of the other, means
compared. Both see the same noise (benchmarks/proofs/noise.py); the kit's covariates are left out.
"""

from __future__ import annotations

import argparse
import sys

import noise
import numpy as np

from kit.analysis.stats.estimators import robust_centre

WITHIN = 0.02
MOST = 200  # runs of each arm
TRUTH = 0.08  # of the log ratio; it cancels in both designs


def in_rounds(deviation: noise.Floats, rng: np.random.Generator) -> float:
    """The error of the kit's estimate from runs one after the other, in rounds of two in random order."""
    pairs = deviation[: deviation.size // 2 * 2].reshape(-1, 2)
    swap = rng.random(len(pairs)) < 0.5
    logs = TRUTH + np.where(swap, pairs[:, 0] - pairs[:, 1], pairs[:, 1] - pairs[:, 0])
    return float(np.exp(robust_centre(logs).estimate - TRUTH) - 1)


def in_sequence(deviation: noise.Floats, rng: np.random.Generator) -> float:
    """The error of the ratio of means, all runs of one arm before all of the other."""
    half = deviation.size // 2
    first, second = np.exp(deviation[:half]), np.exp(TRUTH + deviation[half:])
    return float(second.mean() / first.mean() / np.exp(TRUTH) - 1)


def needed(design: object, world: str, series: noise.Floats, sessions: int) -> int | None:
    """The least number of runs of each arm with which 95 % of the sessions come within ±2 %; None: more than MOST."""
    assert callable(design)

    def good(n: int) -> bool:
        errors = []
        for seed in range(sessions):
            rng = np.random.default_rng(seed)
            errors.append(abs(design(noise.WORLDS[world](rng, 2 * n, series).deviation, rng)))
        return float(np.quantile(errors, 0.95)) <= WITHIN

    low, high = 0, 1
    while not good(high):
        low, high = high, high * 2
        if high > MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=2000)
    noise.add_arguments(parser)
    arguments = parser.parse_args()
    series = noise.series_of(arguments)
    print(f"runs of both arms together until 95 % of {arguments.sessions} sessions are within ±{WITHIN:.0%}")
    print(f"{'noise':14} {'fixed sequence':>15} {'blocks':>8} {'blocks / sequence':>18}")
    good = True
    for world in noise.WORLDS:
        sequence, rounds = (needed(design, world, series, arguments.sessions) for design in (in_sequence, in_rounds))
        ratio = f"{rounds / sequence:.2f}" if rounds and sequence else f"< {rounds / MOST:.2f}" if rounds else "–"
        runs = [f"{2 * count}" if count else f"> {2 * MOST}" for count in (sequence, rounds)]
        print(f"{world:14} {runs[0]:>15} {runs[1]:>8} {ratio:>18}", flush=True)
        if world in ("recorded", "drift"):
            good &= rounds is not None and (sequence is None or 2 * rounds <= sequence)
    print(f"recorded noise and drift: {'at most' if good else 'MORE THAN'} half the runs")
    sys.exit(not good)


if __name__ == "__main__":
    main()
