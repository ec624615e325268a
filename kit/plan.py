"""Plans: which arms run, how often, in which order. Randomised complete blocks from a recorded seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from kit.arm import DRIVER_FILESYSTEM, Arm, parse_arm
from kit.errors import UsageError

CACHES = ("warm", "cold")
DEFAULT_ROUNDS = 3


@dataclass(frozen=True)
class Step:
    """One run that the plan asks for. Warm-up runs are block 0, measured blocks count from 1."""

    block: int
    arm: Arm

    @property
    def kind(self) -> str:
        return "measured" if self.block else "warmup"


@dataclass(frozen=True)
class Plan:
    """All runs of one session. The stopping rule is a fixed number of rounds."""

    arms: tuple[Arm, ...]
    baselines: tuple[tuple[str, str], ...]  # arm, its baseline
    rounds: int
    seed: int
    cache: str = "warm"
    fresh: bool = False

    def block(self, number: int) -> tuple[Arm, ...]:
        """The arms of one block in random order, the same for the same seed on every machine and Python."""
        order = list(self.arms)
        random.Random(f"{self.seed}/{number}").shuffle(order)
        return tuple(order)

    def steps(self) -> Iterator[Step]:
        """Every run in order. A warm cache is made by one unmeasured run per arm."""
        if self.cache == "warm":
            yield from (Step(0, arm) for arm in self.block(0))
        for number in range(1, self.rounds + 1):
            yield from (Step(number, arm) for arm in self.block(number))


def default_arms(engine: str = "docker", system_driver: str = "") -> tuple[Arm, ...]:
    """The ladder on overlay2, then layer on every other driver; on a running daemon, the ladder on its driver."""
    if engine == "system":
        return (
            parse_arm("host", engine),
            *(parse_arm(f"{p}:{system_driver}", engine) for p in ("bind", "volume", "layer")),
        )
    ladder = ["bare", "runtime", "bind:overlay2", "volume:overlay2", "layer:overlay2"]
    others = [f"layer:{driver}" for driver in DRIVER_FILESYSTEM if driver != "overlay2"]
    return tuple(parse_arm(text) for text in ladder + others)


def with_baselines(
    arms: tuple[Arm, ...], named: Arm | None = None
) -> tuple[tuple[Arm, ...], tuple[tuple[str, str], ...]]:
    """Give every arm a baseline on its own backing filesystem; add bare arms where none is there.

    The baseline of an arm is the one ``named``, else bare (or host) on the same filesystem, else the first other arm
    on that filesystem, else a bare arm that is added. Returns all arms and the pairs (arm, baseline).
    """
    every = list(arms)
    if named is not None and named not in every:
        every.insert(0, named)
    pairs: list[tuple[str, str]] = []
    for arm in tuple(every):
        if arm == named or (named is None and _is_top(arm, every)):
            continue
        baseline = named or _baseline(arm, every)
        if baseline == arm:
            continue
        if baseline not in every:
            every.insert(every.index(arm), baseline)
        pairs.append((str(arm), str(baseline)))
    return tuple(every), tuple(pairs)


def _is_top(arm: Arm, arms: list[Arm]) -> bool:
    """bare is compared with nothing, and host is not where there is no bare on its filesystem."""
    has_bare = any(other.placement == "bare" and other.filesystem == arm.filesystem for other in arms)
    return arm.placement == "bare" or (arm.placement == "host" and not has_bare)


def _baseline(arm: Arm, arms: list[Arm]) -> Arm:
    peers = [other for other in arms if other.filesystem == arm.filesystem]
    for placement in ("bare", "host"):
        for other in peers:
            if other.placement == placement:
                return other
    if len(peers) > 1:
        return peers[0]
    return Arm("host" if arm.engine == "system" else "bare", filesystem=arm.filesystem)


def make_plan(
    arms: tuple[Arm, ...], rounds: int, seed: int, cache: str = "warm", baseline: Arm | None = None, fresh: bool = False
) -> Plan:
    if rounds < 1:
        raise UsageError(
            f"--rounds {rounds}: at least one round is needed", "3 is the least that gives a usable interval"
        )
    if cache not in CACHES:
        raise UsageError(f"--cache {cache}: unknown", f"use one of: {', '.join(CACHES)}")
    every, pairs = with_baselines(arms, baseline)
    return Plan(every, pairs, rounds, seed, cache, fresh)
