"""Which system calls an arm costs more in than its baseline: parts of process time that add up to the whole. Pure.

Process time of a run is the CPU of all its processes and the time for which calls held them up: on a disk, on a FUSE
daemon, on a lock in the kernel. Waiting for each other (children, pipes, futexes, timers) and for a free CPU is none
of it: it is spent beside work that is counted already. CPU is that of measured runs; what calls took is known of traced
ones alone. So the whole, the difference of process time, is that of measured CPU plus that of traced holding up; its
parts are the groups of calls, user time, and the rest, which no call and no user time explains.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kit.analysis.call_groups import WITHIN, group_of, held
from kit.analysis.columns import Key, Runs
from kit.analysis.compare import Comparison, compare, compare_paired, is_control
from kit.analysis.paired import Paired
from kit.analysis.stats import Floats, Interval, robust_centre, welch
from kit.model.call import CALL, COPY_UP, DIRECTORY, FAULT, FILE, FUNCTION, FUSE, LOST, UNSEEN, Call
from kit.model.sample import TOTAL, TRACED, Sample

#: What process time is made of in measured runs, by name of the metric, and where no control group counts it.
_CPU, _USER, _SYS = ("cpu",), ("cgroup_user", "user"), ("cgroup_sys", "sys")


@dataclass(frozen=True)
class CallPart:
    """Calls of one group, or of one name in it, per run: how many, what they cost, on the arm and on its baseline, and
    the difference of the latter with its 95 % interval; ``share``: of the whole difference, None where that is not
    told from nothing. Costs are seconds. ``errors``: how many failed on the arm, by errno; ``base_errors``: there."""

    group: str
    name: str
    count: float
    base_count: float
    cost: float
    base_cost: float
    difference: Interval
    share: float | None
    errors: tuple[tuple[str, float], ...] = ()
    base_errors: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class CopyUps:
    """Files and directories that were copied from lower layers to the upper one, per run, and bytes of the files.
    ``unseen``: unions at most whose upper directory was not found, so that none of theirs are among them."""

    files: float = 0.0
    directories: float = 0.0
    bytes: float = 0.0
    unseen: int = 0


@dataclass(frozen=True)
class CallCosts:
    """One arm against its baseline in one phase. ``whole`` = ``groups`` + ``user`` + ``rest``, all differences in
    seconds per run; ``n``: traced blocks. ``real``: of measured runs. ``calls``: what ``groups`` consist of, ``fuse``:
    requests to a daemon, ``functions``: of the kernel's, both in the calls' time. ``lost``: calls that were not
    recorded, per run, of the arm and its baseline."""

    arm: str
    baseline: str
    point: str
    phase: str
    n: int
    whole: Interval
    real: Interval
    groups: tuple[CallPart, ...]
    calls: tuple[CallPart, ...]
    fuse: tuple[CallPart, ...]
    user: Interval
    rest: Interval
    lost: tuple[float, float] = (0.0, 0.0)
    copied: CopyUps = CopyUps()  # on the arm
    functions: tuple[CallPart, ...] = ()


@dataclass(frozen=True)
class Overhead:
    """How many times as long an arm's traced runs take as its measured ones, real time of the whole run."""

    arm: str
    point: str
    ratio: Interval


def compare_calls(samples: Sequence[Sample], runs: Runs, baselines: Sequence[tuple[str, str]]) -> tuple[CallCosts, ...]:
    """Every pair (arm, baseline) whose calls were traced, in every phase and in total. ``runs``: the measured ones."""
    traced = traced_runs([item for item in samples if any(phase.calls for phase in item.phases)])
    found: list[CallCosts] = []
    for point in traced.points:
        pairs = [((arm, point), (base, point)) for arm, base in baselines if not is_control(arm)]
        pairs = [pair for pair in pairs if all(of.has(key) for key in pair for of in (traced, runs))]
        pairs = [pair for pair in pairs if runs.common(pair)[0].size]
        keys = list(dict.fromkeys(key for pair in pairs for key in pair))
        for phase in traced.phases(keys) if keys else ():
            found += _phase(traced, runs, pairs, phase)
    return tuple(found)


def traced_runs(samples: Sequence[Sample]) -> Runs:
    """Those of traced rounds, as statistics take runs."""
    return Runs([replace(item, kind="imported") for item in samples if item.kind == TRACED])


def overheads(samples: Sequence[Sample], runs: Runs) -> tuple[Overhead, ...]:
    traced = traced_runs(samples)
    found = []
    for key in dict.fromkeys((item.arm, item.point) for item in samples if item.kind == TRACED):
        if traced.has(key) and runs.has(key):
            phase = traced.phases([key])[-1]
            logs = [robust_centre(np.log(of.values(key, phase, "real"))) for of in (runs, traced)]
            made = welch(logs[0], logs[1])
            ends = [None if end is None else math.exp(end) for end in (made.low, made.high)]
            found.append(Overhead(*key, Interval(math.exp(made.estimate), ends[0], ends[1], made.n)))
    return tuple(found)


@dataclass(frozen=True)
class _Table:
    """Of one arm in one phase, by (kind, group, name): counts and costs in every traced run."""

    counts: Mapping[tuple[str, str, str], Floats]
    costs: Mapping[tuple[str, str, str], Floats]
    held: Floats
    cpu: Floats
    errors: Mapping[tuple[str, str, str], Mapping[str, float]]
    lost: float
    copied: CopyUps


def _phase(traced: Runs, runs: Runs, pairs: Sequence[tuple[Key, Key]], phase: str) -> Iterator[CallCosts]:
    keys = list(dict.fromkeys(key for pair in pairs for key in pair))
    tables = {key: _table(traced, key, phase) for key in keys}
    names = list(dict.fromkeys(name for table in tables.values() for name in table.costs))
    groups = list(dict.fromkeys((CALL, name[1], "") for name in names if name[0] in (CALL, FAULT)))
    columns = {name: {key: _column(tables[key].costs, name, traced, key) for key in keys} for name in names}
    for group in groups:
        mine = [name for name in names if name[1] == group[1] and name[0] in (CALL, FAULT)]
        columns[group] = {key: np.sum([columns[name][key] for name in mine], axis=0) for key in keys}
    made = {name: _differences(traced, pairs, values, phase) for name, values in columns.items()}
    holding = _differences(traced, pairs, {key: tables[key].held for key in keys}, phase)
    computing = _differences(traced, pairs, {key: tables[key].cpu for key in keys}, phase)
    measured = {name: _measured(runs, pairs, phase, name) for name in ("real", *_CPU, *_USER, *_SYS)}
    for pair in pairs:
        if pair not in holding:
            continue
        real, cpu, user, sys = (_first(measured, of, pair) for of in (("real",), _CPU, _USER, _SYS))
        whole = plus(cpu, _interval(holding[pair]))
        rest = plus(sys, _interval(computing[pair]), -1.0)
        share = None if whole.leaves_out(0.0) is False else whole.estimate
        arm, base = (tables[key] for key in pair)
        parts = {
            name: _part(name, arm, base, _mean(columns[name][pair[0]]), _mean(columns[name][pair[1]]),
                        _interval(found[pair]), share)
            for name, found in made.items() if pair in found
        }  # fmt: skip
        yield CallCosts(
            pair[0][0], pair[1][0], pair[0][1], phase, holding[pair].n, whole, real,
            _sorted(parts, groups), _sorted(parts, [name for name in names if name[0] in (CALL, FAULT)]),
            _sorted(parts, [name for name in names if name[0] == FUSE]), user, rest, (arm.lost, base.lost), arm.copied,
            _sorted(parts, [name for name in names if name[0] == FUNCTION]),
        )  # fmt: skip


def _sorted(
    parts: Mapping[tuple[str, str, str], CallPart], names: Sequence[tuple[str, str, str]]
) -> tuple[CallPart, ...]:
    """The largest difference first."""
    found = [parts[name] for name in names if name in parts]
    return tuple(sorted(found, key=lambda item: -abs(item.difference.estimate)))


def _part(
    name: tuple[str, str, str], arm: _Table, base: _Table, cost: float, base_cost: float, found: Interval,
    whole: float | None,
) -> CallPart:  # fmt: skip
    _, group, call = name
    counts = [
        sum(_mean(values) for key, values in table.counts.items() if key == name or (not call and key[:2] == name[:2]))
        for table in (arm, base)
    ]
    share = found.estimate / whole if whole else None
    errors = [tuple(sorted(table.errors.get(name, {}).items())) for table in (arm, base)]
    return CallPart(group, call, counts[0], counts[1], cost, base_cost, found, share, errors[0], errors[1])


def _table(traced: Runs, key: Key, phase: str) -> _Table:
    listed = [_calls(sample, phase) for sample in traced.samples(key)]
    size = len(listed)
    counts: dict[tuple[str, str, str], Floats] = defaultdict(lambda: np.zeros(size))
    costs: dict[tuple[str, str, str], Floats] = defaultdict(lambda: np.zeros(size))
    errors: dict[tuple[str, str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    holding, cpu = np.zeros(size), np.zeros(size)
    for i, calls in enumerate(listed):
        for call in calls:
            if call.kind in (LOST, COPY_UP):
                continue
            name = (call.kind, group_of(call), call.name)
            counts[name][i] += call.count
            costs[name][i] += call.seconds if call.kind in WITHIN else call.cpu + held(call)
            for error, count in call.errors:
                errors[name][error] += count / size
            if call.kind not in WITHIN:
                holding[i] += held(call)
                cpu[i] += call.cpu
    every = [call for calls in listed for call in calls]
    lost = sum(call.count for call in every if call.kind == LOST) / size
    return _Table(dict(counts), dict(costs), holding, cpu, errors, lost, _copied(every, size))


def _copied(calls: Sequence[Call], runs: int) -> CopyUps:
    found = [call for call in calls if call.kind == COPY_UP]
    files, directories = (sum(call.count for call in found if call.name == name) / runs for name in (FILE, DIRECTORY))
    unseen = max((call.count for call in found if call.name == UNSEEN), default=0)
    return CopyUps(files, directories, sum(call.bytes for call in found) / runs, unseen)


def _calls(sample: Sample, phase: str) -> list[Call]:
    return [call for item in sample.phases if phase in (item.name, TOTAL) for call in item.calls]


def _column(costs: Mapping[tuple[str, str, str], Floats], name: tuple[str, str, str], traced: Runs, key: Key) -> Floats:
    return costs.get(name, np.zeros(traced.blocks(key).size))


def _differences(
    traced: Runs, pairs: Sequence[tuple[Key, Key]], values: Mapping[Key, Floats], phase: str
) -> dict[tuple[Key, Key], Comparison]:
    """Paired within blocks; arms share what is known of the noise."""
    found = {}
    for arm, base in pairs:
        ours, theirs = traced.common([arm, base])
        if ours.size:
            found[arm, base] = Paired(arm, base, "cost", values[arm][ours], values[base][theirs], None, None)
    made = compare_paired(list(found.values()), phase, len(found))
    return dict(zip(found, made, strict=True))


def _measured(runs: Runs, pairs: Sequence[tuple[Key, Key]], phase: str, metric: str) -> dict[tuple[Key, Key], Interval]:
    listed = [(arm[0], base[0]) for arm, base in pairs]
    made = compare(runs, listed, (metric,))
    mine = (item for item in made if (item.phase, item.metric) == (phase, metric))  # a workload reports others
    found = {(item.arm, item.baseline, item.point): item for item in mine}
    keyed = {pair: found.get((pair[0][0], pair[1][0], pair[0][1])) for pair in pairs}
    return {pair: _interval(item) for pair, item in keyed.items() if item}


def _first(
    measured: Mapping[str, Mapping[tuple[Key, Key], Interval]], names: Sequence[str], pair: tuple[Key, Key]
) -> Interval:
    """Of the first of these metrics that was measured, as the last of them always is."""
    return next(measured[name][pair] for name in names if pair in measured[name])


def _interval(item: Comparison) -> Interval:
    return Interval(item.difference, item.difference_low, item.difference_high, item.n)


def plus(one: Interval, other: Interval, sign: float = 1.0) -> Interval:
    """The sum of two that are known independently of each other, or their difference; its ends by the method of
    variance estimates recovery (Zou and Donner 2008), here of symmetrical intervals."""
    estimate = one.estimate + sign * other.estimate
    if one.high is None or other.high is None:
        return Interval(estimate, None, None, min(one.n, other.n))
    half = math.hypot(one.high - one.estimate, other.high - other.estimate)
    return Interval(estimate, estimate - half, estimate + half, min(one.n, other.n))


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else 0.0
