"""Plans: which arms run, how often, in which order. Randomised complete blocks from a recorded seed. Pure."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, replace

from kit.core.errors import UsageError
from kit.model.arm import CONTROL, DEFAULT_DRIVER, DEFAULT_FILESYSTEM, Arm, parse_arm
from kit.model.drivers import DEFAULT_ENGINE, SYSTEM, graph_drivers

CACHES = ("warm", "cold")
DEFAULT_ROUNDS = 5
#: Blocks of traced runs, where calls are to be explained.
TRACED_ROUNDS = 3
#: Arms by turns where the machine is noisy, or never; and how long a turn is where no length is given.
AUTO, OFF = "auto", "off"
DEFAULT_SLICES = 0.5
#: From this many rounds on every block holds a control.
CONTROL_FROM = 4
#: With a precision or a budget: the least rounds before any is judged, and the most where none is reached.
SEQUENTIAL_ROUNDS = 6
MOST_ROUNDS = 100


@dataclass(frozen=True)
class PlanStep:
    """One run that the plan asks for. Warm-up runs are block 0, measured blocks count from 1, and so do traced ones by
    themselves. ``point``: values of swept parameters. ``repeats``: the block of which this run is a repetition."""

    block: int
    arm: Arm
    point: str = ""
    repeats: int | None = None
    traced: bool = False

    @property
    def kind(self) -> str:
        return "traced" if self.traced else "measured" if self.block else "warmup"


@dataclass(frozen=True)
class Plan:
    """All runs of one session, and the stopping rule.

    Without ``precision`` and ``budget``: ``rounds`` rounds. ``precision`` (0.02 for 2 %): at least ``rounds``, then on
    until no ratio's 95 % interval of real time in total reaches farther from its ratio. ``budget`` (seconds): no block
    begins that would not end within it. ``timeout`` (seconds): a run that takes longer is ended. ``points``: labels of
    the settings of swept parameters, all run in each block. ``blocks``: those of the rounds that are made here, all
    where it is empty; others are another machine's. ``slices`` (seconds): the arms of a block run by turns of that
    length; None: one after the other. ``repeats``: whether a block that something outside has hit is run again.
    """

    arms: tuple[Arm, ...]
    baselines: tuple[tuple[str, str], ...]  # arm, its baseline
    rounds: int
    seed: int
    cache: str = "warm"
    fresh: bool = False
    points: tuple[str, ...] = ("",)
    precision: float | None = None
    budget: float | None = None
    timeout: float | None = None
    blocks: tuple[int, ...] = ()
    slices: float | None = None
    repeats: bool = True

    @property
    def sequential(self) -> bool:
        return self.precision is not None or self.budget is not None

    def block(self, number: int) -> tuple[PlanStep, ...]:
        """One block in random order, the same for the same seed on every machine and Python. Block 0 makes a warm
        cache: one unmeasured run of each arm."""
        order = [PlanStep(number, arm, point) for point in self.points for arm in self.arms]
        random.Random(f"{self.seed}/{number}").shuffle(order)
        return tuple(order)

    def traced_block(self, number: int) -> tuple[PlanStep, ...]:
        """As ``block``, of traced runs; no control, whose noise is that of what is measured."""
        arms = [arm for arm in self.arms if not arm.control]
        order = [PlanStep(number, arm, point, traced=True) for point in self.points for arm in arms]
        random.Random(f"{self.seed}/traced {number}").shuffle(order)
        return tuple(order)


def slices_of(text: str) -> float | None:
    """Seconds of a turn; None for ``off``, and for ``auto``, which is decided when the session holds the machine.
    Raises UsageError."""
    if text in (AUTO, OFF):
        return None
    match = re.fullmatch(r"([0-9]{1,2}(?:\.[0-9]{1,3})?)s", text)
    if not match or not 0.1 <= float(match[1]) <= 10:
        raise UsageError(f"--slices {text}: neither auto nor off nor 0.1s to 10s", "for example --slices 0.5s")
    return float(match[1])


def default_arms(engine: str = DEFAULT_ENGINE, system_driver: str = "") -> tuple[Arm, ...]:
    """The ladder on overlay2, then layer on every other driver; on a running daemon, the ladder on its driver."""
    if engine == SYSTEM:
        return (
            parse_arm("host", engine),
            *(parse_arm(f"{p}:{system_driver}", engine) for p in ("bind", "volume", "layer")),
        )
    ladder = ["bare", "runtime", "bind:overlay2", "volume:overlay2", "layer:overlay2"]
    others = [f"layer:{driver.name}" for driver in graph_drivers() if driver.name != DEFAULT_DRIVER]
    return tuple(parse_arm(text) for text in ladder + others)


def with_baselines(
    arms: tuple[Arm, ...], named: Arm | None = None
) -> tuple[tuple[Arm, ...], tuple[tuple[str, str], ...]]:
    """Give every arm a baseline on its own backing filesystem; add bare arms where none is there.

    The baseline of an arm is the one ``named``, else the first where the arms differ in the filesystem alone, else
    bare (or host) on the same filesystem, else the first other arm on that filesystem, else a bare arm that is added.
    Returns all arms and the pairs (arm, baseline).
    """
    every = list(arms)
    if named is None and len(arms) > 1 and len({arm.on(DEFAULT_FILESYSTEM) for arm in arms}) == 1:
        named = arms[0]  # one arm on several filesystems: it is these that are compared
    if named is not None and named not in every:
        every.insert(0, named)
    pairs: list[tuple[str, str]] = []
    for arm in tuple(every):
        if arm == named or (named is None and _is_top(arm, every)):
            continue
        baseline = arm.without(CONTROL) if arm.control else named or _baseline(arm, every)
        if baseline == arm:
            continue
        if baseline not in every:
            every.insert(every.index(arm), baseline)
        pairs.append((str(arm), str(baseline)))
    return tuple(every), tuple(pairs)


def _is_top(arm: Arm, arms: list[Arm]) -> bool:
    """bare is compared with nothing, and host is not where there is no bare on its filesystem."""
    peers = [other for other in arms if other.filesystem == arm.filesystem and not other.control]
    has_bare = any(other.placement == "bare" for other in peers)
    return (arm.placement == "bare" and not arm.control) or (arm.placement == "host" and not has_bare)


def _baseline(arm: Arm, arms: list[Arm]) -> Arm:
    peers = [other for other in arms if other.filesystem == arm.filesystem and not other.control]
    for placement in ("bare", "host"):
        for other in peers:
            if other.placement == placement:
                return other
    if len(peers) > 1:
        return peers[0]
    return Arm("host" if arm.engine == SYSTEM else "bare", filesystem=arm.filesystem)


def with_control(
    arms: tuple[Arm, ...], pairs: tuple[tuple[str, str], ...]
) -> tuple[tuple[Arm, ...], tuple[tuple[str, str], ...]]:
    """Add an identical second copy of the baseline that most arms are compared with, and compare the two."""
    if not pairs or any(arm.control for arm in arms):
        return arms, pairs
    name = Counter(base for _, base in pairs).most_common(1)[0][0]
    index = [str(arm) for arm in arms].index(name)
    copy = arms[index].copy()
    return (*arms[: index + 1], copy, *arms[index + 1 :]), ((str(copy), name), *pairs)


def make_plan(
    arms: tuple[Arm, ...],
    rounds: int,
    seed: int,
    cache: str = "warm",
    baseline: Arm | None = None,
    fresh: bool = False,
    points: tuple[str, ...] = ("",),
    precision: float | None = None,
    budget: float | None = None,
    control: bool | None = None,
    timeout: float | None = None,
    slices: float | None = None,
    repeats: bool = True,
) -> Plan:
    """``control`` None: from CONTROL_FROM rounds on, and where their number is open. Raises UsageError."""
    if rounds < 1:
        raise UsageError(f"--rounds {rounds}: at least one round is needed", "3 are a first look, 5 an answer")
    if cache not in CACHES:
        raise UsageError(f"--cache {cache}: unknown", f"use one of: {', '.join(CACHES)}")
    if precision is not None:
        rounds = max(rounds, SEQUENTIAL_ROUNDS)
    every, pairs = with_baselines(arms, baseline)
    plan = Plan(every, pairs, rounds, seed, cache, fresh, points, precision, budget, timeout, (), slices, repeats)
    if control or (control is None and (rounds >= CONTROL_FROM or plan.sequential)):
        every, pairs = with_control(every, pairs)
    return replace(plan, arms=every, baselines=pairs)
