"""Runs that a machine of recorded speed would make: each has its work to do, and takes as long as the speed lets it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import numpy as np
from speed import STEP

from kit.analysis.stats.estimators import Floats
from kit.arms.engines import Sandbox
from kit.host.cgroup.freezer import Freezer
from kit.session.measure.interleave import Underway, interleave

_NOWHERE = cast(Sandbox, SimpleNamespace(backing=SimpleNamespace(device="")))


class Machine:
    """Begins anywhere in what was recorded, goes through it forwards or backwards, and turns round at its ends: no
    jump is made that the machine has not."""

    def __init__(self, speed: Floats, chance: np.random.Generator, seconds: float) -> None:
        """``speed``: steps x CPUs; ``seconds``: for so long at least."""
        there_and_back = np.concatenate([speed, speed[::-1]])
        begin = int(chance.integers(len(there_and_back)))
        steps = begin + np.arange(int(seconds / STEP) + 1)
        self._speed = there_and_back[steps % len(there_and_back)]
        self._times = STEP * np.arange(len(steps) + 1)
        self._done = self._worked(self._speed.mean(axis=1))
        self._each = [self._worked(column) for column in self._speed.T]
        self.now = 0.0

    @staticmethod
    def _worked(speed: Floats) -> Floats:
        worked: Floats = np.concatenate([[0.0], np.cumsum(speed)]) * STEP
        return worked

    def work(self, amount: float, seconds: float = np.inf) -> tuple[float, float]:
        """Work so much, and so long at most, on all CPUs; returns what is left of it and how long it took."""
        before = np.interp(self.now, self._times, self._done)
        end = float(np.interp(before + amount, self._done, self._times))
        if end - self.now <= seconds:
            took, left = end - self.now, 0.0
        else:
            took = seconds
            left = amount - float(np.interp(self.now + seconds, self._times, self._done) - before)
        self.now += took
        return left, took

    def work_beside(self, amounts: Sequence[float]) -> list[float]:
        """All at once, on a CPU each; returns how long each took."""
        took = []
        for amount, done in zip(amounts, self._each, strict=True):
            before = np.interp(self.now, self._times, done)
            took.append(float(np.interp(before + amount, done, self._times)) - self.now)
        self.now += max(took)
        return took


class Turns(Underway):
    """An interleaved run: all that the kit's own order of slices needs of one."""

    def __init__(self, machine: Machine, amount: float) -> None:
        super().__init__(_NOWHERE, cast(Freezer, None))
        self._machine, self._left, self.real = machine, amount, 0.0

    @property
    def ended(self) -> bool:
        return self._left <= 0

    def turn(self, seconds: float | None, others: Sequence[str]) -> None:
        self._left, took = self._machine.work(self._left, np.inf if seconds is None else seconds)
        self.real += took


def one_after_the_other(machine: Machine, amounts: Sequence[float], pause: float) -> list[float]:
    """``pause``: seconds that the harness takes for each run."""
    real = []
    for amount in amounts:
        real.append(machine.work(amount)[1])
        machine.now += pause
    return real


def by_turns(machine: Machine, amounts: Sequence[float], pause: float, seconds: float, order: random.Random) -> (
    list[float]
):  # fmt: skip
    runs = [Turns(machine, amount) for amount in amounts]
    interleave(runs, seconds, order)
    machine.now += pause * len(runs)
    return [run.real for run in runs]


def by_metronome(machine: Machine, amounts: Sequence[float], pause: float, seconds: float, beat: float) -> list[float]:
    """One after the other; between two slices of a run a reference load, always the same, works for a beat. What each
    run took is given as work of the reference: seconds by the speed that it had meanwhile."""
    real = []
    for amount in amounts:
        left, took, worked, beats = amount, 0.0, 0.0, 0
        while left > 0:
            left, slice_ = machine.work(left, seconds)
            took += slice_
            much = 1e6
            worked += much - machine.work(much, beat)[0]
            beats += 1
        real.append(took * worked / (beats * beat))
        machine.now += pause
    return real
