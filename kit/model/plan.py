"""Plans: which arms run, how often, in which order. Randomised complete rounds from a recorded seed. Pure."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from kit.core.codec import Amount, Count
from kit.core.errors import UsageError
from kit.core.quantity import cpu_list
from kit.model.arm import (
    CONTROL,
    DEFAULT_FILESYSTEM,
    PLAIN,
    Arm,
    default_filesystem,
    driver_of,
    known_arm,
    parse_arm,
)
from kit.model.default import CACHES, WARM
from kit.model.default_driver import Docker, default_driver, docker_of, is_common
from kit.model.drivers import ENGINES, SYSTEM
from kit.model.options import RoundOptions, SessionOptions, slice_of
from kit.model.variant import unvaried, variant_of, with_variant

#: Rounds before the first look at the answer, and seconds after which an open session stops undecided.
DECIDE_FROM, DEFAULT_BUDGET = 3, 600.0
#: Default number of rounds that machines of a fleet share: an open number cannot be shared out.
SHARED_ROUNDS = 5
#: Arms are equivalent if their difference is shown to be smaller than this share.
DEFAULT_MARGIN = RoundOptions().margin
#: Rounds of traced runs, if calls are to be explained.
TRACED_ROUNDS = 3
#: From this number of rounds on every round contains a control.
CONTROL_FROM = 4
#: With a precision or a budget: the least rounds before any decision, and the most without one.
SEQUENTIAL_ROUNDS = 6
MOST_ROUNDS = 100


@dataclass(frozen=True)
class PlanStep:
    """One planned run."""

    round: int  # 0 for warm-up runs; measured rounds count from 1, and so do traced ones separately
    arm: Arm
    point: str = ""  # values of swept parameters
    rerun_of: int | None = None  # the round of which this is a rerun
    traced: bool = False

    @property
    def kind(self) -> str:
        return "traced" if self.traced else "measured" if self.round else "warmup"


@dataclass(frozen=True, kw_only=True)
class Plan(RoundOptions):
    """All runs of one session, and the stopping rule.

    Without the following: ``rounds`` rounds. ``until_decided``: at least ``rounds``, then on until each arm is
    significantly different from the reference or equivalent to it within ``margin``, DEFAULT_BUDGET at most.
    ``precision``: at least ``rounds``, then on until no ratio's 95 % interval of real time in total reaches farther
    from its ratio. ``budget``: no round begins that would not end within it.
    """

    arms: tuple[Arm, ...]
    baselines: tuple[tuple[str, str], ...]  # arm, its baseline
    points: tuple[str, ...] = ("",)  # the settings of swept parameters, all run in each round
    assigned: tuple[Count, ...] = ()  # the rounds that are made here; all where it is empty
    interleave: Amount | None = None  # seconds of a time slice; None: the arms of a round run sequentially
    until_decided: bool = False
    cpuset: tuple[Count, ...] = ()  # CPUs of all arms' programs, all where it is empty

    def __post_init__(self) -> None:
        super().__post_init__()
        for arm in self.arms:
            if known_arm(str(arm)) != arm:  # a plan may come from a store or from another machine
                raise UsageError(f"arm '{arm}' is not one of this kit's", "see kit help arms")

    @property
    def open_ended(self) -> bool:
        """Return whether the number of rounds depends on the measurements, or on the time that they take."""
        return self.until_decided or self.precision is not None or self.budget is not None

    @property
    def limit(self) -> float | None:
        """Return the seconds after which no round begins; None without such a limit. A session without its own
        ``budget`` runs its least rounds in any case."""
        return DEFAULT_BUDGET if self.budget is None and self.until_decided else self.budget

    def round(self, number: int) -> tuple[PlanStep, ...]:
        """Return one round in random order, the same for the same seed on every machine and Python. Round 0 warms the
        cache: one unmeasured run of each arm."""
        order = [PlanStep(number, arm, point) for point in self.points for arm in self.arms]
        random.Random(f"{self.seed}/{number}").shuffle(order)
        return tuple(order)

    def traced_round(self, number: int) -> tuple[PlanStep, ...]:
        """Return a round of traced runs, without a control, whose noise is that of measured runs."""
        arms = [arm for arm in self.arms if not arm.control]
        order = [PlanStep(number, arm, point, traced=True) for point in self.points for arm in arms]
        random.Random(f"{self.seed}/traced {number}").shuffle(order)
        return tuple(order)


def least_rounds(rounds: int) -> int:
    """Return the least number of rounds of a session for the requested number."""
    return rounds or DECIDE_FROM


def default_arms(engine: str, docker: Docker, cache: str, system_driver: str = "") -> tuple[Arm, ...]:
    """Return the ladder on Docker's default driver, then layer on every other driver; on a running daemon, the ladder
    on its driver. ``docker``: the one that ``docker`` means. ``cache``: with warm caches a driver that copies all files
    is left out, since a container finds in memory what was just written: no answer considers it."""
    if engine == SYSTEM:
        return (
            parse_arm("host", engine),
            *(parse_arm(f"{p}:{system_driver}", engine) for p in ("bind", "volume", "layer")),
        )
    first, *others = docker_of(engine, docker).drivers
    ladder = ["bare", *(f"{placement}:{first}" for placement in ("runtime", "bind", "volume", "layer"))]
    arms = [parse_arm(text, engine) for text in (*ladder, *(f"layer:{name}" for name in others))]
    return tuple(arm for arm in arms if cache != WARM or not driver_of(arm).copies_all)


def check_reference(reference: str, arms: Iterable[Arm | str]) -> None:
    """Check the reference of the ranking before hours of measuring, not after. Raises UsageError."""
    names = [str(arm) for arm in arms]
    if reference and reference not in names:
        raise UsageError(f"--reference {reference}: no arm of this session", f"use one of: {', '.join(names)}")


def reference_of(arms: Sequence[Arm], docker: Docker) -> str:
    """Return the arm that the others are ranked against: layer on the default driver of its engine, else on another
    common driver, with the first command if there are several; '' without one. Several commands have one in any case:
    the first in a container, else the first. ``docker``: the one that ``docker`` means."""
    candidates = []
    for number, arm in enumerate(map(unvaried, arms)):
        engine, at, _ = arm.engine.partition("@")
        plain = not (arm.options or arm.outer) and arm.filesystem == default_filesystem(arm.engine, arm.driver)
        if arm.placement == "layer" and plain and (engine == SYSTEM or is_common(engine, arm.driver)):
            is_default = engine == SYSTEM or arm.driver == default_driver(arm.engine, docker)
            candidates.append((ENGINES.index(engine), bool(at), not is_default, number))
    if candidates:
        return str(arms[min(candidates)[-1]])
    picks = [arm for arm in arms if arm.contained and arm.placement != "runtime"]
    return str([*picks, *arms][0]) if any(map(variant_of, arms)) else ""


def with_baselines(
    arms: tuple[Arm, ...], chosen: Arm | None = None
) -> tuple[tuple[Arm, ...], tuple[tuple[str, str], ...]]:
    """Give every arm a baseline on its own backing filesystem; add bare arms where it is missing.

    The baseline of an arm is the one ``chosen``, else the first where the arms differ in the filesystem or in the
    command alone, else bare (or host) on the same filesystem, else the first other arm on that filesystem, else a bare
    arm that is added. It has the arm's command; bare with another command is compared with bare with the first one.
    Returns all arms and the pairs (arm, baseline).
    """
    every = list(arms)
    if chosen is None and len(arms) > 1 and (_differ_in_one(arms, _on_default) or _differ_in_one(arms, unvaried)):
        chosen = arms[0]  # one arm on several filesystems, or with several commands: it is these that are compared
    if chosen is not None:
        baselines = dict.fromkeys(with_variant(chosen, variant_of(arm)) for arm in arms)
        every = [*(arm for arm in baselines if arm not in arms), *arms]
    pairs: list[tuple[str, str]] = []
    for arm in tuple(every):
        own_baseline = with_variant(chosen, variant_of(arm)) if chosen else None
        if arm == own_baseline or (chosen is None and _is_top(arm, every)):
            first = _first(arm, every)
            if chosen and not variant_of(chosen) and first != arm:  # the baseline itself, with another command
                pairs.append((str(arm), str(first)))
            continue
        baseline = arm.without(CONTROL) if arm.control else own_baseline or _baseline(arm, every)
        if baseline == arm:
            continue
        if baseline not in every:
            every.insert(every.index(arm), baseline)
        pairs.append((str(arm), str(baseline)))
    return tuple(every), tuple(pairs)


def _differ_in_one(arms: Sequence[Arm], without_it: Callable[[Arm], Arm]) -> bool:
    return len(set(map(without_it, arms))) == 1


def _on_default(arm: Arm) -> Arm:
    return arm.on(DEFAULT_FILESYSTEM)


def _first(arm: Arm, arms: Sequence[Arm]) -> Arm:
    """Return the arm with the first command."""
    return next(other for other in arms if unvaried(other) == unvaried(arm))


def _is_top(arm: Arm, arms: list[Arm]) -> bool:
    """Return whether the arm needs no baseline: bare, or host without bare there, with the first command."""
    peers = [other for other in arms if other.filesystem == arm.filesystem and not other.control]
    has_bare = any(other.placement == "bare" for other in peers)
    top = (arm.placement == "bare" and not arm.control) or (arm.placement == "host" and not has_bare)
    return top and _first(arm, arms) == arm


def _baseline(arm: Arm, arms: list[Arm]) -> Arm:
    if arm.placement == "bare":
        return _first(arm, arms)
    peers = [other for other in arms if other.filesystem == arm.filesystem and not other.control]
    peers = [other for other in peers if variant_of(other) == variant_of(arm)]
    uncontained = [other for placement in PLAIN for other in peers if other.placement == placement]
    if not uncontained and len(peers) == 1:
        plain = Arm("host" if arm.engine == SYSTEM else "bare", filesystem=arm.filesystem)
        return with_variant(plain, variant_of(arm))
    candidate = [*uncontained, *peers][0]
    return _first(arm, arms) if candidate == arm else candidate


def with_control(
    arms: tuple[Arm, ...], pairs: tuple[tuple[str, str], ...]
) -> tuple[tuple[Arm, ...], tuple[tuple[str, str], ...]]:
    """Add an identical second copy of the most common baseline, and compare the two."""
    if not pairs or any(arm.control for arm in arms):
        return arms, pairs
    name = Counter(base for _, base in pairs).most_common(1)[0][0]
    index = [str(arm) for arm in arms].index(name)
    copy = arms[index].copy()
    return (*arms[: index + 1], copy, *arms[index + 1 :]), ((str(copy), name), *pairs)


def make_plan(arms: tuple[Arm, ...], options: SessionOptions, points: tuple[str, ...] = ("",)) -> Plan:
    """Return the plan. Its rounds are the least; their number may be open. Raises UsageError."""
    rounds = least_rounds(options.rounds)
    if not 0 < options.margin <= 1:
        raise UsageError(f"--margin {options.margin:.4g}: not above 0 and at most 100 %", "use for example --margin 3%")
    if options.cache not in CACHES:
        raise UsageError(f"--cache {options.cache}: unknown", f"use one of: {', '.join(CACHES)}")
    if options.precision is not None:
        rounds = max(rounds, SEQUENTIAL_ROUNDS)
    every, pairs = with_baselines(arms, parse_arm(options.baseline, options.engine) if options.baseline else None)
    plan = Plan(
        **{**options.of_rounds(), "rounds": rounds},
        arms=every,
        baselines=pairs,
        points=points,
        interleave=slice_of(options.interleave),
        until_decided=options.until_decided,
        cpuset=cpu_list(options.cpuset) if options.cpuset else (),
    )
    if options.control or (options.control is None and (rounds >= CONTROL_FROM or plan.open_ended)):
        every, pairs = with_control(every, pairs)
    return replace(plan, arms=every, baselines=pairs)
