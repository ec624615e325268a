"""Worlds in which the truth is known: what the machine's noise is, and how much noisier each arm is by itself.

A session is played by the kit's own schedule: it asks for runs, the world answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import noise
import numpy as np

from kit.analysis.runs.paired import COPIES
from kit.model.plan import MOST_ROUNDS, Plan
from kit.model.sample import RUN_ORDER, Phase, Sample, run_order
from kit.session.plan.schedule import End, Schedule

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
    the penalty of the last arm. ``seen``: the kit can see some causes of the noise. ``interleave``: seconds."""

    weather: Callable[[np.random.Generator, int, noise.Floats], noise.Noise]
    arms: Callable[[np.random.Generator], Arms] = lambda rng: dict.fromkeys(PENALTIES, 1.0)
    last: float = PENALTIES[LAST]
    seen: bool = False
    interleave: float | None = None


def _fuse(rng: np.random.Generator) -> Arms:
    return {**{arm: rng.uniform(2 / 3, 4 / 3) for arm in PENALTIES}, LAST: 8 / 3}


def _random(rng: np.random.Generator) -> Arms:
    return {arm: float(np.exp(rng.normal(0, 0.35))) for arm in PENALTIES}


def _one_noisy(rng: np.random.Generator) -> Arms:
    return {**dict.fromkeys(PENALTIES, 1.0), LAST: 8 / 3}


def _five_times(arm: str) -> Callable[[np.random.Generator], Arms]:
    """Return the noise of arms of which one is five times as noisy."""
    return lambda rng: {**dict.fromkeys(PENALTIES, 1.0), arm: 5.0}


def _quiet(rng: np.random.Generator, runs: int, series: noise.Floats) -> noise.Noise:
    """1.2 % a run: what is left of normal noise where time slices meet all arms alike."""
    found = noise.normal(rng, runs, series)
    return replace(found, deviation=found.deviation * 0.4)


#: Seconds.
SLICE = 0.5
WORLDS = {
    "equal": World(noise.normal),
    "2-4 %, fuse 8 %": World(noise.normal, _fuse, float(np.log(2.4))),
    "random variances": World(noise.normal, _random),
    "AR(1) 0.6": World(noise.dependent),
    "AR(1) 0.8, 12 %": World(noise.drifting_far),
    "bursts": World(noise.bursting, seen=True),
    "CPU neighbours": World(noise.neighbours, seen=True),
    "one noisy near 0": World(noise.normal, _one_noisy, 0.0),
    "one arm 5 x as noisy": World(noise.normal, _five_times(LAST), 0.0),
    "baseline 5 x as noisy": World(noise.normal, _five_times("bare"), 0.0),
    "one arm 2.4 x slower": World(noise.normal, last=float(np.log(2.4))),
    "speed walk": World(noise.walking),
    **{name: World(noise.WORLDS[name]) for name in ("recorded", "drift", "heavy tails")},
    "memory": World(noise.memory_bound, seen=True),
    "interleaved, equal": World(_quiet, interleave=SLICE),
    "interleaved, one arm 5 x": World(_quiet, _five_times(LAST), 0.0, interleave=SLICE),
    "interleaved, baseline 5 x": World(_quiet, _five_times("bare"), 0.0, interleave=SLICE),
    "interleaved, 2.4 x slower": World(_quiet, last=float(np.log(2.4)), interleave=SLICE),
}


def play(
    plan: Plan, world: World, penalties: Mapping[str, float], series: noise.Floats, seed: int, most: int = MOST_ROUNDS
) -> list[Sample]:
    """All runs of one session, of one phase each. ``most``: rounds of one that ends when all is decided."""
    rng = np.random.default_rng(seed)
    plan = replace(plan, rerun=plan.rerun and world.seen, interleave=world.interleave)
    digests = ((RUN_ORDER, run_order(plan.interleave)),)
    copies = {arm: rng.normal(0, COPIES / np.sqrt(2)) if world.interleave else 0.0 for arm in penalties}
    longest = 100 * len(penalties) + 300
    weather, spreads = world.weather(rng, longest, series), world.arms(rng)
    schedule = Schedule(plan, penalties)
    samples: list[Sample] = []
    while not isinstance(round_ := schedule.next(samples), End) and (round_.number <= most or not plan.until_decided):
        for step in round_.steps:
            i, arm = len(samples), str(step.arm)
            real = 10 * float(np.exp(penalties[arm] + copies[arm] + spreads.get(arm, 1.0) * weather.deviation[i]))
            phase = Phase("build", "ok", real, steal=0.0, psi_cpu=real * float(weather.pressure[i]))
            if weather.outside is not None:
                phase = replace(phase, psi_cpu=0.0, outside=real * float(weather.outside[i]))
            spin = float(np.exp(weather.memory[i]))
            samples.append(
                Sample(arm, step.round, "measured", "ok", float(i), (phase,), 0.004, 0.004, spin, spin,
                       digests=digests, rerun_of=step.rerun_of)
            )  # fmt: skip
    return samples
