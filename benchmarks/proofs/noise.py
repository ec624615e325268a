"""Noise for simulated sessions: recorded on a real machine, with what else happens to build fleets added on demand.

``RECORDED`` are the 96 runs of a session of kernel:short (bare, runtime, bind, layer on overlay2, 24 rounds) on a
2-core virtual machine that did nothing else, in the order of time: deviation of the logarithm of real time from the
mean of the arm, in tenths of a percent. Standard deviation 1.9 %, autocorrelation 0.56 at one run's distance, 0.3 at
five: the neighbours of a virtual machine come and go. ``from_store`` takes the noise of any other session instead.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kit.analysis.runs.run_table import Runs
from kit.core.paths import find_paths
from kit.store import open_store

Floats = NDArray[np.float64]

SPREAD = 0.03

RECORDED = (
    2, 20, -11, 1, -7, 3, 33, 1, 9, -8, -15, -8, -14, -16, -3, -27, -14, -20, -3, 32, 48, 35, 29, -17, 19, 25, 16, 14,
    35, 26, 36, 19, 19, 24, 19, 38, 33, 2, -16, 6, -16, -18, -2, -11, 1, -13, -15, 27, -17, 38, 4, -15, -24, -18, -6,
    -6, -5, -14, -23, -12, -12, -12, -9, -16, -6, -26, -12, -15, -12, -13, 14, -17, -26, -13, -15, -14, -15, -14, -22,
    -17, -12, 0, -9, -18, -17, -3, 3, 7, 7, -6, 17, 1, 32, 21, 26, 3,
)  # fmt: skip


@dataclass(frozen=True)
class Noise:
    """Of so many runs one after the other: deviations of log real time, and what the kit can see of their causes."""

    deviation: Floats
    memory: Floats  # log of the memory spin
    pressure: Floats  # share of the run's time in which some task waited for CPU
    outside: Floats | None = None  # CPUs that other programs used meanwhile, where nothing else shows it


def from_store(session: str, url: str = "") -> Floats:
    """Deviations of the runs of a stored session in the order of time."""
    found = open_store(url, find_paths().data / "kit.db").get(session)
    runs = Runs(found.samples)
    series = []
    for arm in found.arms:
        for point in runs.points:
            if runs.has((arm, point)):
                logs = np.log(runs.values((arm, point), runs.phases([(arm, point)])[-1], "real"))
                started = [sample.started for sample in runs.samples((arm, point))]
                series += list(zip(started, logs - logs.mean(), strict=True))
    return np.array([deviation for _, deviation in sorted(series)])


def recorded(rng: np.random.Generator, runs: int, series: Floats) -> Noise:
    """Moving-block bootstrap (Künsch 1989) of the recorded runs, twelve in a row, so that autocorrelation stays."""
    length = 12
    starts = rng.integers(0, series.size, -(-runs // length))
    picked = (starts[:, None] + np.arange(length)).ravel()[:runs] % series.size
    return Noise(series[picked], np.zeros(runs), np.full(runs, 0.08))


def drifting(rng: np.random.Generator, runs: int, series: Floats) -> Noise:
    """The machine gets up to 10 % slower or faster in the course of the session, with a step in the middle."""
    noise = recorded(rng, runs, series)
    drift = rng.uniform(-0.1, 0.1) * np.linspace(0, 1, runs)
    drift[rng.integers(0, runs) :] += rng.normal(0, 0.03)
    return Noise(noise.deviation + drift, noise.memory, noise.pressure)


def bursting(rng: np.random.Generator, runs: int, series: Floats) -> Noise:
    """A neighbour slows one to three runs in a row by 5 to 40 %; half of the time pressure shows it."""
    noise = recorded(rng, runs, series)
    deviation, pressure = noise.deviation.copy(), noise.pressure.copy()
    for start in np.flatnonzero(rng.random(runs) < 0.03):
        stop = start + int(rng.integers(1, 4))
        deviation[start:stop] += rng.uniform(0.05, 0.4)
        if rng.random() < 0.5:
            pressure[start:stop] += 0.3
    return Noise(deviation, noise.memory, pressure)


def heavy(rng: np.random.Generator, runs: int, series: Floats) -> Noise:
    """Student's t with 3 degrees of freedom, of the recorded spread: outliers without any cause that can be seen."""
    return Noise(rng.standard_t(3, runs) * series.std() / np.sqrt(3), np.zeros(runs), np.full(runs, 0.08))


def memory_bound(rng: np.random.Generator, runs: int, series: Floats) -> Noise:
    """Half of the noise is the speed of memory, of which the spins tell with an error as large as what they tell."""
    noise = recorded(rng, runs, series)
    speed = rng.normal(0, series.std(), runs)
    return Noise(noise.deviation + speed, 5 * (speed + rng.normal(0, series.std(), runs)), noise.pressure)


def normal(rng: np.random.Generator, runs: int, series: Floats) -> Noise:
    """Normal noise of 3 %, each run by itself."""
    return Noise(rng.normal(0, SPREAD, runs), np.zeros(runs), np.full(runs, 0.08))


def dependent(rng: np.random.Generator, runs: int, series: Floats) -> Noise:
    """Normal noise of 3 % in which every run takes after the one before it: AR(1), 0.6."""
    values = rng.normal(0, SPREAD, runs)
    for i in range(1, runs):
        values[i] = 0.6 * values[i - 1] + 0.8 * values[i]
    return Noise(values, np.zeros(runs), np.full(runs, 0.08))


def drifting_far(rng: np.random.Generator, runs: int, series: Floats) -> Noise:
    """Normal noise of 12 %, AR(1) 0.8."""
    values = rng.normal(0, 0.12, runs)
    for i in range(1, runs):
        values[i] = 0.8 * values[i - 1] + 0.6 * values[i]
    return Noise(values, np.zeros(runs), np.full(runs, 0.08))


def neighbours(rng: np.random.Generator, runs: int, series: Floats) -> Noise:
    """Normal noise of 3 %; programs that take 0.3 to 1 CPU slow 22 % of all runs by 5 to 40 %, as pressure does not
    show."""
    found = normal(rng, runs, series)
    hit = rng.random(runs) < 0.22
    used = hit * rng.uniform(0.3, 1.0, runs)
    return Noise(found.deviation + 0.4 * used * hit * rng.uniform(0.4, 1.0, runs), found.memory, found.pressure,
                 0.02 + used)  # fmt: skip


def walking(rng: np.random.Generator, runs: int, series: Floats) -> Noise:
    """The machine's speed is a random walk of 1 % from run to run; each run's own noise is 1.5 %."""
    walk = np.cumsum(rng.normal(0, 0.01, runs))
    return Noise(walk + rng.normal(0, 0.015, runs), np.zeros(runs), np.full(runs, 0.08))


WORLDS = {"recorded": recorded, "drift": drifting, "bursts": bursting, "heavy tails": heavy, "memory": memory_bound}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", help="take the noise from this session of the store, not the built-in series")
    parser.add_argument("--store", default="", help="the store that holds it")


def series_of(arguments: argparse.Namespace) -> Floats:
    if arguments.session:
        return from_store(arguments.session, arguments.store)
    return np.array(RECORDED) / 1000
