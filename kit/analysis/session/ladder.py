"""The ladder: a container's whole penalty split into steps that each change one thing. Pure.

Everything here is linear, plain means over the same rounds, so that the steps add up exactly to the whole."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations

import numpy as np

from kit.analysis.runs.paired import COPIES, with_error
from kit.analysis.runs.run_table import Key, Runs
from kit.analysis.stats import variance_pooling
from kit.analysis.stats.estimate import Interval
from kit.analysis.stats.estimators import Floats, mean_centre
from kit.core.errors import UsageError
from kit.model.arm import Arm, parse_arm
from kit.model.sample import TOTAL

RUNTIME, READ, WRITE, FLUSH, WHOLE = "runtime tax", "read tax", "write tax", "flush debt", "whole"
#: Costs that can be split: time, and CPU of the build, outside the build, and both.
COSTS = ("real", "cpu", "outside", "cpu_total")
#: Options that remove a feature of a container; the runtime tax is split by removing them one by one.
_FEATURES = {"cgroup": "none", "seccomp": "unconfined"}
#: The part of each cost that falls due after the phase.
_DEBT = {"real": "flush", "outside": "flush_cpu", "cpu_total": "flush_cpu"}


@dataclass(frozen=True)
class LadderStep:
    """A step from one rung of the ladder to the next: its cost in seconds per run and as a share of the baseline's
    cost.

    Both are means over the rounds with 95 % intervals, by the noise that the rungs share. Each round's share is of that
    round's baseline: of its real time and flush, or of all its CPU. ``share_all``: the same share, with an interval
    that is simultaneous for all steps and the whole."""

    name: str
    lower: str  # arm
    upper: str  # arm
    seconds: Interval
    share: Interval | None  # None where a round's baseline is zero
    share_all: Interval | None = None


@dataclass(frozen=True)
class Ladder:
    """The penalty of ``arm`` against ``baseline`` in one cost of one phase; ``steps`` add up to ``whole``.

    ``largest`` is one step if that is significantly above each other step in all pairs, else the steps that do not
    differ significantly; empty if no cost is significant."""

    arm: str
    baseline: str
    phase: str
    cost: str
    point: str
    n: int  # number of rounds that contain every arm of the ladder
    base: float  # the baseline's cost in seconds, of which shares are taken
    steps: tuple[LadderStep, ...]
    whole: LadderStep
    largest: tuple[LadderStep, ...] = ()  # the most expensive steps


def whole_ladder(ladders: Sequence[Ladder], cost: str) -> Ladder | None:
    """Return the ladder of the whole run in this cost."""
    same_cost = [ladder for ladder in ladders if ladder.cost == cost]
    return next((ladder for ladder in same_cost if ladder.phase == TOTAL), same_cost[-1] if same_cost else None)


def rungs(arm: str, baseline: str, others: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the arms between baseline and arm that ``others`` contains, in order, each with its step's name.

    The first is the baseline, without a step. Empty if the two are not ends of a ladder or no arm is between them."""
    try:
        top, bottom = parse_arm(arm), parse_arm(baseline)
        arms = [parse_arm(other) for other in others]
    except UsageError:  # not a spelling of this version's arms
        return ()
    if bottom.placement != "bare" or not top.contained or top.filesystem != bottom.filesystem:
        return ()
    if top.control or top.outer:  # a bind mount in an outer container is no directory of the backing filesystem
        return ()
    chain = [(bottom, ""), *_between(top, arms)]
    names: list[str] = []
    ladder: list[tuple[str, str]] = [(baseline, "")]
    for want, name in chain[1:]:
        names.append(name)
        here = next((other for other in arms if _matches(want, other)), None)
        if here is not None and str(here) not in [rung for rung, _ in ladder]:
            ladder.append((str(here), _join(names)))
            names = []
    return tuple(ladder) if len(ladder) > 2 and ladder[-1][0] == arm else ()


def _between(top: Arm, arms: Sequence[Arm]) -> Iterator[tuple[Arm, str]]:
    """Return every possible rung above bare."""
    yield from _features(Arm("runtime", top.engine, top.driver, top.filesystem, top.options), arms)
    if top.placement == "layer":
        bind = next((arm for arm in arms if arm == Arm("bind", *_rest(top))), Arm("volume", *_rest(top)))
        yield bind, READ
        yield top, WRITE
    elif top.placement in ("bind", "volume"):
        yield top, READ


def _features(runtime: Arm, arms: Sequence[Arm]) -> list[tuple[Arm, str]]:
    """Return the runtime arm, preceded by arms that lack features of containers, if these are known."""
    best = [(runtime, RUNTIME)]
    for order in permutations(name for name in _FEATURES if not runtime.option(name)):
        options = {**dict(runtime.options), **{name: _FEATURES[name] for name in order}}
        steps = [(_with(runtime, options), f"{RUNTIME}: namespaces")]
        for name in order:
            del options[name]
            steps.append((_with(runtime, options), f"{RUNTIME}: {name}"))
        if _count(steps, arms) > _count(best, arms):
            best = steps
    return best


def _count(steps: Sequence[tuple[Arm, str]], arms: Sequence[Arm]) -> int:
    return sum(any(_matches(want, other) for other in arms) for want, _ in steps)


def _join(names: Sequence[str]) -> str:
    """Return the name of a step across missing rungs, as ``runtime tax: namespaces and cgroup``."""
    if all(name.startswith(f"{RUNTIME}: ") for name in names):
        return f"{RUNTIME}: " + " and ".join(name.removeprefix(f"{RUNTIME}: ") for name in names)
    return " and ".join(dict.fromkeys(name.partition(":")[0] for name in names))


def _rest(arm: Arm) -> tuple[str, str, str, tuple[tuple[str, str], ...]]:
    return arm.engine, arm.driver, arm.filesystem, arm.options


def _with(arm: Arm, options: dict[str, str]) -> Arm:
    return Arm(arm.placement, arm.engine, arm.driver, arm.filesystem, tuple(sorted(options.items())))


def _matches(want: Arm, other: Arm) -> bool:
    """Return whether the rung matches. A runtime arm uses no driver: any daemon of the engine on the filesystem will
    do."""
    if want.placement == "runtime" == other.placement:
        return (want.engine, want.filesystem, want.options) == (other.engine, other.filesystem, other.options)
    return want == other


def climb(runs: Runs, baselines: Iterable[tuple[str, str]], arms: Sequence[str]) -> tuple[Ladder, ...]:
    """Return a ladder for every arm that is the top of one; per point, phase and cost. Labels of imported figures have
    none."""
    if runs.labelled:
        return ()
    ladders = []
    pairs = list(baselines)
    for arm, baseline in pairs:
        chain = rungs(arm, baseline, arms)
        if not chain or _is_rung_of_another(arm, pairs, arms):
            continue
        for point in runs.points:
            keys = [(name, point) for name, _ in chain]
            if all(runs.has(key) for key in keys):
                for phase in runs.phases(keys):
                    ladders += [ladder for cost in COSTS if (ladder := _split(runs, keys, chain, phase, cost))]
    return tuple(ladders)


def _is_rung_of_another(arm: str, pairs: Sequence[tuple[str, str]], arms: Sequence[str]) -> bool:
    return any(arm in [name for name, _ in rungs(top, base, arms)][:-1] for top, base in pairs if top != arm)


def _split(runs: Runs, keys: Sequence[Key], chain: Sequence[tuple[str, str]], phase: str, cost: str) -> Ladder | None:
    places = runs.common(keys)
    costs = [runs.values(key, phase, cost)[place] for key, place in zip(keys, places, strict=True)]
    debts = [np.zeros(place.size) for place in places]
    if cost in _DEBT:
        debts = [runs.values(key, phase, _DEBT[cost])[place] for key, place in zip(keys, places, strict=True)]
    whole = np.isfinite(np.array([*costs, *debts])).all(axis=0)
    costs, debts = [values[whole] for values in costs], [values[whole] for values in debts]
    if not whole.any():
        return None
    start = costs[0] + debts[0]
    base = start if cost == "real" else _all_cpu(runs, keys[0], phase)[places[0]][whole]
    names = [arm for arm, _ in chain]
    parts = [costs[i] - costs[i - 1] for i in range(1, len(chain))]
    rises = [(chain[i][1], names[i - 1], names[i]) for i in range(1, len(chain))]
    ends = names[0], names[-1]
    alike = cost != "outside"
    copies = COPIES if alike and runs.interleaved(keys[0]) else 0.0
    errors = [copies * float(lower.mean()) for lower in (*costs[:-1], start)]
    whole_rise = costs[-1] + debts[-1] - start
    levels = [(float(upper.mean()), float(lower.mean())) for lower, upper in pairwise(costs)]
    levels.append((float((costs[-1] + debts[-1]).mean()), float(start.mean())))
    family = len(rises) + 1 + (cost in _DEBT)
    *steps, total = _steps([*rises, (WHOLE, *ends)], [*parts, whole_rise], base, errors, levels, alike, family)
    errors.pop()
    if cost in _DEBT:
        parts.append(debts[-1] - debts[0])
        errors.append(0.0)
        steps += _steps([(FLUSH, *ends)], parts[-1:], base, errors[-1:], levels[-1:], False, family)
    means = {name: float(cost.mean()) for name, cost in zip(names, costs, strict=True)}
    largest = _dearest(steps, parts, errors, means, alike)
    return Ladder(
        ends[1], ends[0], phase, cost, keys[0][1], int(base.size), float(base.mean()), tuple(steps), total, largest
    )


def _all_cpu(runs: Runs, key: Key, phase: str) -> Floats:
    """Return CPU of the arm and outside the arm, flush included; that of the arm alone if nothing else is counted."""
    everything = runs.values(key, phase, "cpu_total") + runs.values(key, phase, "flush_cpu")
    return np.where(np.isfinite(everything), everything, runs.values(key, phase, "cpu"))


def _steps(
    names: Sequence[tuple[str, str, str]],
    seconds: Sequence[Floats],
    base: Floats,
    errors: Sequence[float],
    levels: Sequence[tuple[float, float]],
    alike: bool,
    family: int,
) -> list[LadderStep]:
    """Return the steps, which share an estimate of the noise if it is ``alike``. Noise grows with the ``levels``, the
    costs of both rungs. ``errors``: of their copies, which rounds do not show. ``family``: number of all steps and the
    whole."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = [part / base for part in seconds]
    has_shares = bool((base > 0).all()) and all(bool(np.isfinite(share).all()) for share in shares)
    pairs = [(lower, upper) for _, lower, upper in names]
    size = float(base.mean())
    absolute = [centre.interval() for centre in _share(pairs, seconds, levels, errors, alike, family)]
    of_base = [error / size for error in errors] if has_shares else []
    # A share also contains the baseline's noise, as far as the rungs differ.
    scales = [(math.hypot(upper, upper - lower) / size, lower / size) for upper, lower in levels] if has_shares else []
    shared = _share(pairs, shares, scales, of_base, alike, family) if has_shares else []
    relative: Sequence[tuple[Interval | None, Interval | None]] = [(None, None)] * len(names)
    if shared:
        relative = [(centre.interval(), centre.interval_together()) for centre in shared]
    return [
        LadderStep(*name, interval, *of_share)
        for name, interval, of_share in zip(names, absolute, relative, strict=True)
    ]


def _share(
    pairs: Sequence[variance_pooling.Pair],
    parts: Sequence[Floats],
    scales: Sequence[tuple[float, float]],
    errors: Sequence[float],
    alike: bool,
    family: int,
) -> list[variance_pooling.PooledEstimate]:
    contrasts = [
        variance_pooling.Contrast(pair, mean_centre(part), alike, scale=scale)
        for pair, part, scale in zip(pairs, parts, scales, strict=True)
    ]
    shared = variance_pooling.share(contrasts, family)
    return [with_error(centre, error) for centre, error in zip(shared, errors, strict=True)]


def _dearest(
    steps: Sequence[LadderStep],
    parts: Sequence[Floats],
    errors: Sequence[float],
    means: Mapping[str, float],
    alike: bool,
) -> tuple[LadderStep, ...]:
    """Return the most expensive steps (see Ladder), by all differences of steps. Their noise is that of all rungs, by
    ``means`` of their costs; neighbours share one rung, which counts twice. A flush has no rung: it gets the noise of
    the other step. The error of copies is that of one step; flushes have none."""
    order = sorted(range(len(steps)), key=lambda i: -steps[i].seconds.estimate)
    if not any((step.seconds.low or 0) > 0 for step in steps):
        return ()
    contrasts, copied = [], []
    for i, j in combinations(order, 2):
        flush = FLUSH in (steps[i].name, steps[j].name)
        step, other = (j, i) if steps[i].name == FLUSH else (i, j)
        weights = Counter({steps[step].upper: 1, steps[step].lower: -1})
        if not flush:
            weights.subtract({steps[other].upper: 1, steps[other].lower: -1})
        squares = sum(weight**2 for weight in weights.values())
        copied.append(max(errors[i], errors[j]) * math.sqrt(squares / 2))
        noise = math.sqrt(sum((weight * means[arm]) ** 2 for arm, weight in weights.items()))
        scale = (noise, noise if flush else 0.0)
        contrasts.append(variance_pooling.Contrast((i, j), mean_centre(parts[i] - parts[j]), alike, scale=scale))
    shared = variance_pooling.share(contrasts, len(contrasts))
    apart = [with_error(centre, error) for centre, error in zip(shared, copied, strict=True)]
    first = order[0]
    rivals = [j for j, centre in zip(order[1:], apart, strict=False) if not (centre.interval_together().low or 0) > 0]
    return (steps[first], *(steps[j] for j in rivals if steps[j].seconds.estimate > 0))
