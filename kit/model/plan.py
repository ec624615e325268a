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
#: The number of rounds is open: the session stops when the question is answered.
AUTO_ROUNDS = 0
#: Rounds before the first look at the answer, and seconds after which an open session stops undecided.
DECIDE_FROM, DEFAULT_BUDGET = 3, 600.0
#: Rounds that the machines of a fleet share where none are asked for: a number that is open cannot be shared out.
SHARED_ROUNDS = 5
#: Arms whose difference is shown to be smaller than this share are equivalent.
DEFAULT_MARGIN = 0.03
#: Blocks of traced runs, where calls are to be explained.
TRACED_ROUNDS = 3
#: ``--interleave``: wherever that is honest, or never.
AUTO, OFF = "auto", "off"
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

    Without the following: ``rounds`` rounds. ``until_decided``: at least ``rounds``, then on until each arm is
    significantly different from the reference or equivalent to it within ``margin`` (0.03 for 3 %), DEFAULT_BUDGET at
    most. ``precision`` (0.02 for 2 %): at least ``rounds``, then on until no ratio's 95 % interval of real time in
    total reaches farther from its ratio. ``budget`` (seconds): no round begins that would not end within it.

    ``timeout`` (seconds): a run that takes longer is ended. ``points``: labels of the settings of swept parameters, all
    run in each round. ``blocks``: those of the rounds that are made here, all where it is empty; others are another
    machine's. ``interleave`` (seconds): the arms of a round run in time slices of that length; None: sequentially.
    ``repeats``: whether a round that something outside has hit is run again.
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
    interleave: float | None = None
    repeats: bool = True
    until_decided: bool = False
    margin: float = DEFAULT_MARGIN

    @property
    def open_ended(self) -> bool:
        """Whether the number of rounds depends on what is measured, or on the time that it takes."""
        return self.until_decided or self.precision is not None or self.budget is not None

    @property
    def limit(self) -> float | None:
        """Seconds after which no round begins; None without such a limit. The least rounds of a session that has no
        ``budget`` of its own are run all the same."""
        return DEFAULT_BUDGET if self.budget is None and self.until_decided else self.budget

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


def least_rounds(rounds: int) -> int:
    """How many rounds a session has at least that was asked for so many."""
    return rounds or DECIDE_FROM


def slice_of(text: str) -> float | None:
    """Return the length of a time slice in seconds; None for ``off``, and for ``auto``, which is decided when the
    session holds the machine. Raises UsageError."""
    if text in (AUTO, OFF):
        return None
    match = re.fullmatch(r"([0-9]{1,2}(?:\.[0-9]{1,3})?)s", text)
    if not match or not 0.1 <= float(match[1]) <= 10:
        raise UsageError(
            f"--interleave {text}: unknown mode", "use auto, off, or a slice length from 0.1s to 10s, such as 0.5s"
        )
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
    interleave: float | None = None,
    repeats: bool = True,
    margin: float = DEFAULT_MARGIN,
) -> Plan:
    """``rounds``: AUTO_ROUNDS leaves their number open. ``control`` None: from CONTROL_FROM rounds on, and where their
    number is open. Raises UsageError."""
    until_decided = rounds == AUTO_ROUNDS and precision is None
    rounds = least_rounds(rounds)
    if rounds < 1:
        raise UsageError(f"--rounds {rounds}: at least one round is needed", "3 are a first look, auto decides")
    if not 0 < margin <= 1:
        raise UsageError(f"--margin {margin:.4g}: neither 0 nor above 100 %", "for example --margin 3%")
    if cache not in CACHES:
        raise UsageError(f"--cache {cache}: unknown", f"use one of: {', '.join(CACHES)}")
    if precision is not None:
        rounds = max(rounds, SEQUENTIAL_ROUNDS)
    every, pairs = with_baselines(arms, baseline)
    plan = Plan(every, pairs, rounds, seed, cache, fresh, points, precision, budget, timeout, (), interleave, repeats,
                until_decided, margin)  # fmt: skip
    if control or (control is None and (rounds >= CONTROL_FROM or plan.open_ended)):
        every, pairs = with_control(every, pairs)
    return replace(plan, arms=every, baselines=pairs)
