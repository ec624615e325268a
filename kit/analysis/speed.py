"""What the speed of the machine does to two runs that are compared: made one after the other, and by turns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kit.analysis.stats import Floats

#: Seconds: the grid that speed is put on, and one of the two runs.
STEP, RUN = 0.1, 10.0
#: A machine is noisy where one run after the other differs by more than the first, and turns bring that down below
#: this share of it.
NOISY, BETTER = 0.015, 0.6


@dataclass(frozen=True)
class Unsteadiness:
    """Root mean square of the log ratio of two identical runs, one after the other, and by turns."""

    whole: float
    sliced: float

    @property
    def noisy(self) -> bool:
        return self.whole > NOISY and self.sliced < BETTER * self.whole


def unsteadiness(workers: Sequence[Sequence[tuple[float, float]]], slices: float) -> Unsteadiness:
    """From the same short work, done over and over by one worker on each CPU: when each began and how long it took, in
    seconds. Wanted: more than two runs' time."""
    begin = max(done[0][0] for done in workers)
    steps = int((min(done[-1][0] for done in workers) - begin) / STEP)
    speed = np.sum([_speed(done, begin, steps) for done in workers], axis=0)
    run, turn = round(RUN / STEP), max(1, round(slices / STEP))
    pattern = np.resize(np.repeat([True, False, False, True], turn), 2 * run)
    halves = np.arange(2 * run) < run
    windows = [speed[at : at + 2 * run] for at in range(0, steps - 2 * run + 1, run // 4)]
    return Unsteadiness(_rms(windows, halves), _rms(windows, pattern))


def _rms(windows: Sequence[Floats], first: np.typing.NDArray[np.bool_]) -> float:
    ratios = [np.log(window[first].sum() / window[~first].sum()) for window in windows]
    return float(np.sqrt(np.mean(np.square(ratios))))


def _speed(done: Sequence[tuple[float, float]], begin: float, steps: int) -> Floats:
    """Units of work in each step of the grid, each shared out evenly over the time that it took."""
    edges = begin + STEP * np.arange(steps + 1)
    times = np.concatenate([[start for start, _ in done], [done[-1][0] + done[-1][1]]])
    return np.diff(np.interp(edges, times, np.arange(times.size, dtype=float)))
