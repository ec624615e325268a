"""Runs of builds made up, task by task."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kit.model.sample import Phase, Sample
from kit.parsers.task import BuildTask

#: Seconds of CPU that a task of each kind takes, and how much longer it lasts.
KINDS = {"fetch": 0.3, "unpack": 0.6, "configure": 5.0, "compile": 9.0, "install": 1.5, "populate_lic": 0.02}
RECIPES = ("zip-native", "unzip-native", "quilt-native")
LONGER, ITSELF = 1.25, 4.0
ARMS = "bare", "bind:overlay2", "layer:overlay2"
PAIRS = [("bind:overlay2", "bare"), ("layer:overlay2", "bare")]


def run(arm: str, round_: int, dearer: Mapping[str, float], dice: np.random.Generator, noise: float = 0.02) -> Sample:
    """One, in which tasks of these kinds take so much more; the machine is faster in some rounds than in others."""
    speed = 1 + 0.05 * np.sin(round_)
    tasks = []
    for recipe in RECIPES:
        for kind, seconds in KINDS.items():
            cpu = float(seconds * speed * dearer.get(kind, 1.0) * dice.normal(1, noise))
            tasks.append(BuildTask(kind, recipe, 0.0, cpu * LONGER, cpu * 0.75, cpu * 0.25))
    spent = sum(task.cpu or 0.0 for task in tasks) + ITSELF * float(dice.normal(1, noise))
    phase = Phase("build", "ok", real=spent / 2, cgroup_user=spent * 0.75, cgroup_sys=spent * 0.25, tasks=tuple(tasks))
    clean = Phase("clean", "ok", real=1.0, cgroup_user=0.1, cgroup_sys=0.1)
    return Sample(arm, round_, "measured", "ok", 0.0, (phase, clean))
