"""The ladder: a container's whole penalty split into steps that each change one thing. Pure.

Everything here is linear, plain means over the same blocks, so that the steps add up exactly to the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from kit.arm import Arm, parse_arm
from kit.errors import UsageError
from kit.runs import Key, Runs
from kit.stats import Floats, Interval, mean_interval

RUNTIME, READ, WRITE, FLUSH, WHOLE = "runtime tax", "read tax", "write tax", "flush debt", "whole"
#: What can be split: time, and CPU of the build, elsewhere and both.
COSTS = ("real", "cpu", "elsewhere", "cpu_total")
#: Options that take a feature away from a container; leaving them out one by one splits the runtime tax.
_FEATURES = {"cgroup": "none", "seccomp": "unconfined"}
#: Each cost's part that falls due after the phase.
_DEBT = {"real": "flush", "elsewhere": "flush_cpu", "cpu_total": "flush_cpu"}


@dataclass(frozen=True)
class Step:
    """One rung of the ladder: what it adds, in seconds per run and as a share of the baseline's cost.

    Both are means over the blocks with 95 % intervals; in each block the share is of that block's baseline: of its real
    time and flush, or of all its CPU.
    """

    name: str
    lower: str  # arm
    upper: str  # arm
    seconds: Interval
    share: Interval | None  # None where a block's baseline is zero


@dataclass(frozen=True)
class Ladder:
    """The penalty of ``arm`` against ``baseline`` in one cost of one phase; ``steps`` add up to ``whole``.

    ``base`` is what the shares are of, in seconds, ``n`` the number of blocks that hold every arm of the ladder.
    """

    arm: str
    baseline: str
    phase: str
    cost: str
    point: str
    n: int
    base: float
    steps: tuple[Step, ...]
    whole: Step


def rungs(arm: str, baseline: str, others: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The arms between baseline and arm that ``others`` holds, in order, each with what its step adds.

    The first is the baseline, with no step. Empty where the two are not ends of a ladder or nothing is between them.
    """
    try:
        top, bottom = parse_arm(arm), parse_arm(baseline)
        known = [parse_arm(other) for other in others]
    except UsageError:  # labels of imported figures
        return ()
    if bottom.placement != "bare" or not top.contained or top.filesystem != bottom.filesystem or top.control:
        return ()
    chain = [(bottom, ""), *_between(top, known)]
    names: list[str] = []
    found: list[tuple[str, str]] = [(baseline, "")]
    for want, name in chain[1:]:
        names.append(name)
        here = next((other for other in known if _matches(want, other)), None)
        if here is not None and str(here) not in [item for item, _ in found]:
            found.append((str(here), _join(names)))
            names = []
    return tuple(found) if len(found) > 2 and found[-1][0] == arm else ()


def _between(top: Arm, known: Sequence[Arm]) -> Iterator[tuple[Arm, str]]:
    """Every rung above bare that could be there."""
    yield from _features(Arm("runtime", top.engine, top.driver, top.filesystem, top.options), known)
    if top.placement == "layer":
        bind = next((arm for arm in known if arm == Arm("bind", *_rest(top))), Arm("volume", *_rest(top)))
        yield bind, READ
        yield top, WRITE
    elif top.placement in ("bind", "volume"):
        yield top, READ


def _features(runtime: Arm, known: Sequence[Arm]) -> list[tuple[Arm, str]]:
    """The runtime arm alone, or before it those that lack a feature of containers, as far as they are known."""
    best = [(runtime, RUNTIME)]
    for order in permutations(name for name in _FEATURES if not runtime.option(name)):
        options = {**dict(runtime.options), **{name: _FEATURES[name] for name in order}}
        steps = [(_with(runtime, options), f"{RUNTIME}: namespaces")]
        for name in order:
            del options[name]
            steps.append((_with(runtime, options), f"{RUNTIME}: {name}"))
        if _count(steps, known) > _count(best, known):
            best = steps
    return best


def _count(steps: Sequence[tuple[Arm, str]], known: Sequence[Arm]) -> int:
    return sum(any(_matches(want, other) for other in known) for want, _ in steps)


def _join(names: Sequence[str]) -> str:
    """``runtime tax: namespaces and cgroup``: what one step adds where rungs are missing."""
    if all(name.startswith(f"{RUNTIME}: ") for name in names):
        return f"{RUNTIME}: " + " and ".join(name.removeprefix(f"{RUNTIME}: ") for name in names)
    return " and ".join(dict.fromkeys(name.partition(":")[0] for name in names))


def _rest(arm: Arm) -> tuple[str, str, str, tuple[tuple[str, str], ...]]:
    return arm.engine, arm.driver, arm.filesystem, arm.options


def _with(arm: Arm, options: dict[str, str]) -> Arm:
    return Arm(arm.placement, arm.engine, arm.driver, arm.filesystem, tuple(sorted(options.items())))


def _matches(want: Arm, other: Arm) -> bool:
    """A runtime arm touches no driver: that of any daemon of the engine on the filesystem will do."""
    if want.placement == "runtime" == other.placement:
        return (want.engine, want.filesystem, want.options) == (other.engine, other.filesystem, other.options)
    return want == other


def climb(runs: Runs, baselines: Iterable[tuple[str, str]], arms: Sequence[str]) -> tuple[Ladder, ...]:
    """A ladder for every arm that has one and stands on top of its own; per point, phase and cost."""
    found = []
    pairs = list(baselines)
    for arm, baseline in pairs:
        chain = rungs(arm, baseline, arms)
        if not chain or _is_rung_of_another(arm, pairs, arms):
            continue
        for point in runs.points:
            keys = [(name, point) for name, _ in chain]
            if all(runs.has(key) for key in keys):
                for phase in runs.phases(keys):
                    found += [made for cost in COSTS if (made := _split(runs, keys, chain, phase, cost))]
    return tuple(found)


def _is_rung_of_another(arm: str, pairs: Sequence[tuple[str, str]], arms: Sequence[str]) -> bool:
    return any(arm in [name for name, _ in rungs(top, base, arms)][:-1] for top, base in pairs if top != arm)


def _split(runs: Runs, keys: Sequence[Key], chain: Sequence[tuple[str, str]], phase: str, cost: str) -> Ladder | None:
    places = runs.common(keys)
    costs = [runs.values(key, phase, cost)[place] for key, place in zip(keys, places, strict=True)]
    debts = [np.zeros(place.size) for place in places]
    if cost in _DEBT:
        debts = [runs.values(key, phase, _DEBT[cost])[place] for key, place in zip(keys, places, strict=True)]
    whole = np.isfinite(np.array([*costs, *debts])).all(axis=0)
    costs, debts = [item[whole] for item in costs], [item[whole] for item in debts]
    if not whole.any():
        return None
    start = costs[0] + debts[0]
    base = start if cost == "real" else _all_cpu(runs, keys[0], phase)[places[0]][whole]
    names = [arm for arm, _ in chain]
    steps = [_step(chain[i][1], names[i - 1], names[i], costs[i] - costs[i - 1], base) for i in range(1, len(chain))]
    if cost in _DEBT:
        steps.append(_step(FLUSH, names[0], names[-1], debts[-1] - debts[0], base))
    total = _step(WHOLE, names[0], names[-1], costs[-1] + debts[-1] - start, base)
    point = keys[0][1]
    return Ladder(names[-1], names[0], phase, cost, point, int(base.size), float(base.mean()), tuple(steps), total)


def _all_cpu(runs: Runs, key: Key, phase: str) -> Floats:
    """CPU of the arm and elsewhere, flush included; that of the arm alone where nothing else is counted."""
    everything = runs.values(key, phase, "cpu_total") + runs.values(key, phase, "flush_cpu")
    return np.where(np.isfinite(everything), everything, runs.values(key, phase, "cpu"))


def _step(name: str, lower: str, upper: str, seconds: Floats, base: Floats) -> Step:
    with np.errstate(divide="ignore", invalid="ignore"):
        share = seconds / base
    known = bool(np.isfinite(share).all()) and bool((base > 0).all())
    return Step(name, lower, upper, mean_interval(seconds), mean_interval(share) if known else None)
