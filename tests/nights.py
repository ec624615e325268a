"""Sessions made up for tests of what comes after measuring."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

from kit.analysis.runs.compare import compare
from kit.analysis.runs.run_table import Runs
from kit.analysis.session.entry import Entry, make_entry
from kit.analysis.session.outcome import outcomes
from kit.analysis.session.stopping import looks
from kit.model.sample import Phase, Sample
from kit.model.session import DONE, NotRun, Request, Session

FACTS = {"kernel": "6.1", "cpu": "one, microcode 1", "machine": "aa", "caches": "warm"}


@cache
def night(number: int, penalty: float, noise: float = 0.003, rounds: int = 4, **facts: str) -> Session:
    """A session of ``rounds`` rounds whose arm costs ``penalty`` more than bare, with noise of its own."""
    dice = random.Random(number)
    samples = []
    for round_ in range(1, rounds + 1):
        for arm, seconds in (("bare", 10.0), ("layer:overlay2", 10.0 * (1 + penalty))):
            real = seconds * (1 + dice.gauss(0, noise))
            phases = (Phase("build", "ok", real=real, user=real), Phase("clean", "ok", real=1.0, user=1.0))
            samples.append(Sample(arm, round_, "measured", "ok", 0.0, phases, digests=(("scenario", "s"),)))
    return Session(
        id=f"2026-{number:04}", created=1e9 + 86400 * number, kit_version="1", title="mine", status=DONE,
        request=Request(), arms=("bare", "layer:overlay2"), baselines=(("layer:overlay2", "bare"),), seed=1,
        facts={**FACTS, **facts}, samples=tuple(samples),
    )  # fmt: skip


def on(machine: int, number: int, penalty: float) -> Session:
    """A session of a fleet's machine whose rounds take a minute, five minutes after it began."""
    made = night(100 * machine + number, penalty)
    began = 1.7e9 + 86400 * number
    samples = tuple(replace(item, started=began + 300 + 60 * item.round) for item in made.samples)
    facts = {**made.facts, "machine": f"id{machine}", "worker": f"builder-{machine}", "class": "large"}
    return replace(made, id=f"m{machine}-{number:03}", created=began, samples=samples, facts=facts)


def entry(session: Session, phase: str = "total") -> Entry:
    runs = Runs(session.samples)
    (found,) = (
        item
        for item in outcomes(runs, compare(runs, session.baselines, looks=looks(session)))
        if (item.comparison.phase, item.comparison.metric) == (phase, "real")
    )
    return make_entry(session, found)


@cache
def ladder_session() -> Session:
    """All rungs of the ladder, a container far slower, an arm that was not run, a failed run, one hit by a burst."""
    dice = random.Random(7)
    costs = {"bare": 1.0, "runtime:overlay2": 1.02, "bind:overlay2": 1.06, "layer:overlay2": 1.2, "layer:vfs": 2.6}
    samples = []
    for round_ in range(1, 7):
        for arm, cost in costs.items():
            real = 10 * cost * dice.gauss(1, 0.01)
            phases = (
                Phase("build", "ok", real=real, user=8.0, sys=real / 5, cgroup_user=8.0, cgroup_sys=real / 5,
                      outside=0.1, flush=0.2),
                Phase("clean", "ok", real=1.0, user=0.1, sys=0.9, cgroup_user=0.1, cgroup_sys=0.9, outside=0.0,
                      flush=0.1),
            )  # fmt: skip
            flags = "steal 9% of real" if (arm, round_) == ("bare", 3) else ""
            samples.append(Sample(arm, round_, "measured", "ok", 0.0, phases, flags=flags))
    samples.append(Sample("layer:vfs", 7, "measured", "failed", 0.0, (), error="no <room> left", log="/log"))
    return Session(
        id="20260101-000000-full", created=1.7e9, kit_version="1", title="mine & <yours>", status=DONE,
        request=Request(), arms=(*costs, "layer:aufs"), baselines=tuple((arm, "bare") for arm in list(costs)[1:]),
        seed=1, facts={**FACTS, "note": "</script><b>"}, samples=tuple(samples),
        not_run=(NotRun("layer:aufs", "this kernel has no aufs", "boot another"),),
    )  # fmt: skip
