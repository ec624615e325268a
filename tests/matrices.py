"""Sessions made up for tests of the matrix: several scenarios and drivers, with costs that are known."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from kit.model.fact import DEFAULT_REFERENCE
from kit.model.sample import Phase, Sample
from kit.model.session import DONE, NotRun, Request, Session

REFERENCE = "layer:overlay2"
#: What each arm costs against the reference, by scenario.
COSTS: Mapping[str, Mapping[str, float]] = {
    "kernel:short": {"bare": 0.95, REFERENCE: 1.0, "layer:btrfs": 1.0, "layer:vfs": 1.2, "bind:overlay2": 0.97},
    "git:short": {"bare": 0.9, REFERENCE: 1.0, "layer:btrfs": 0.8, "layer:vfs": 1.5, "bind:overlay2": 0.93},
    "fsync:short": {"bare": 0.9, REFERENCE: 1.0, "layer:btrfs": 1.6, "layer:vfs": 1.1, "bind:overlay2": 0.9},
}
SECONDS = 10.0
FACTS = {"kernel": "6.1.0", "cpu": "Xeon 6338, 64 CPUs", "memory": "251.6 GiB", "machine": "aa", "caches": "warm"}


def made(
    title: str,
    costs: Mapping[str, float],
    number: int = 1,
    noise: float = 0.003,
    rounds: int = 6,
    not_run: tuple[NotRun, ...] = (),
    **facts: str,
) -> Session:
    """Return a session of a fixed number of rounds. Each arm writes and keeps as many MB as it takes percent of the
    reference's time."""
    dice = random.Random(f"{title} {number}")
    samples = []
    for round_ in range(1, rounds + 1):
        for arm, cost in costs.items():
            real = SECONDS * cost * (1 + dice.gauss(0, noise))
            size = 1e8 * cost * (1 + dice.gauss(0, noise))
            phase = Phase("build", "ok", real=real * 0.9, flush=real * 0.1, space=size, write_bytes=size, flush_bytes=0)
            samples.append(Sample(arm, round_, "measured", "ok", 1.7e9, (phase,), digests=(("scenario", title),)))
    arms = (*costs, *(item.arm for item in not_run))
    named = DEFAULT_REFERENCE.fact(REFERENCE)
    return Session(
        id=f"{title.replace(':', '-')}-{number:03}", created=1.7e9 + 60 * number, kit_version="1", title=title,
        status=DONE, request=Request(rounds=rounds), arms=arms,
        baselines=tuple((arm, "bare") for arm in arms if arm != "bare"), seed=1,
        facts={**FACTS, named.key: named.text, **facts}, samples=tuple(samples), not_run=not_run,
    )  # fmt: skip


def in_copies(session: Session, seconds: Mapping[int, float]) -> Session:
    """Return the session with these numbers of copies at once, and what the reference then takes."""
    samples = [
        replace(item, point=f"copies={copies}" if len(seconds) > 1 else "", phases=tuple(
            replace(phase, real=(phase.real or 0.0) * took / SECONDS, flush=(phase.flush or 0.0) * took / SECONDS)
            for phase in item.phases))
        for item in session.samples for copies, took in seconds.items()
    ]  # fmt: skip
    params = (("copies", ",".join(map(str, seconds))),)
    return replace(session, samples=tuple(samples), request=replace(session.request, params=params))


def suite(number: int = 1) -> list[Session]:
    """Return a session of each scenario, on a machine without zfs."""
    missing = (NotRun("layer:zfs", "the kernel has no zfs", "modprobe zfs"),)
    return [made(title, costs, number, not_run=missing) for title, costs in COSTS.items()]


def on_machine(session: Session, machine: int, machine_class: str = "large") -> Session:
    """Return the session as one of a fleet's machine."""
    facts = {**session.facts, "machine": f"id{machine}", "worker": f"builder-{machine}", "class": machine_class}
    return replace(session, id=f"m{machine}-{session.id}", facts=facts)
