"""Worlds in which the truth is known: what the machine's noise is, and how much noisier each arm is by itself.

A session is played by the kit's own schedule: it asks for runs, the world answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import noise
import numpy as np

from kit.model.plan import Plan
from kit.model.sample import Phase, Sample
from kit.session.schedule import End, Schedule

Arms = dict[str, float]
#: What each arm costs, as a logarithm.
PENALTIES: Arms = {
    "bare": 0.0, "bare+control": 0.0, "runtime:overlay2": 0.0, "bind:overlay2": 0.02, "layer:overlay2": 0.05,
    "layer:vfs": 0.0, "layer:podman/overlay": float(np.log(1.1)), "bind:fuse-overlayfs": 0.02,
    "layer:fuse-overlayfs": 0.08,
}  # fmt: skip
LAST = "layer:fuse-overlayfs"


@dataclass(frozen=True)
class World:
    """``weather``: of the machine, run after run. ``arms``: by what factor each arm's own noise is larger. ``last``:
    the penalty of the last arm."""

    weather: Callable[[np.random.Generator, int, noise.Floats], noise.Noise]
    arms: Callable[[np.random.Generator], Arms] = lambda rng: dict.fromkeys(PENALTIES, 1.0)
    last: float = PENALTIES[LAST]


def _fuse(rng: np.random.Generator) -> Arms:
    return {**{arm: rng.uniform(2 / 3, 4 / 3) for arm in PENALTIES}, LAST: 8 / 3}


def _random(rng: np.random.Generator) -> Arms:
    return {arm: float(np.exp(rng.normal(0, 0.35))) for arm in PENALTIES}


def _one_noisy(rng: np.random.Generator) -> Arms:
    return {**dict.fromkeys(PENALTIES, 1.0), LAST: 8 / 3}


def _five_times(arm: str) -> Callable[[np.random.Generator], Arms]:
    """Return the noise of arms of which one is five times as noisy."""
    return lambda rng: {**dict.fromkeys(PENALTIES, 1.0), arm: 5.0}


WORLDS = {
    "equal": World(noise.normal),
    "2-4 %, fuse 8 %": World(noise.normal, _fuse, float(np.log(2.4))),
    "random variances": World(noise.normal, _random),
    "AR(1) 0.6": World(noise.dependent),
    "bursts": World(noise.bursting),
    "one noisy near 0": World(noise.normal, _one_noisy, 0.0),
    "one arm 5 x as noisy": World(noise.normal, _five_times(LAST), 0.0),
    "baseline 5 x as noisy": World(noise.normal, _five_times("bare"), 0.0),
    "one arm 2.4 x slower": World(noise.normal, last=float(np.log(2.4))),
    "speed walk": World(noise.walking),
    **{name: World(noise.WORLDS[name]) for name in ("recorded", "drift", "heavy tails", "memory")},
}


def play(plan: Plan, world: World, penalties: Mapping[str, float], series: noise.Floats, seed: int) -> list[Sample]:
    """All runs of one session, of one phase each."""
    rng = np.random.default_rng(seed)
    longest = 100 * len(penalties) + 300
    weather, spreads = world.weather(rng, longest, series), world.arms(rng)
    schedule = Schedule(plan, penalties)
    samples: list[Sample] = []
    while not isinstance(block := schedule.next(samples), End):
        for step in block.steps:
            i, arm = len(samples), str(step.arm)
            real = 10 * float(np.exp(penalties[arm] + spreads.get(arm, 1.0) * weather.deviation[i]))
            phase = Phase("build", "ok", real, steal=0.0, psi_cpu=real * float(weather.pressure[i]))
            spin = float(np.exp(weather.memory[i]))
            samples.append(
                Sample(arm, step.block, "measured", "ok", float(i), (phase,), 0.004, 0.004, spin, spin,
                       repeats=step.repeats)
            )  # fmt: skip
    return samples
