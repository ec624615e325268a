"""Which system calls an arm costs more in than its baseline: parts of process time that add up to the whole. Pure.

Process time of a run is the CPU of all its processes, plus the time for which calls delayed them: disk, FUSE daemon,
kernel lock. Waits for each other (children, pipes, futexes, timers) and for a free CPU do not count: other work that
counts runs meanwhile. CPU comes from measured runs, time of calls from traced runs alone. So the whole, the difference
of process time, adds measured CPU and traced delays. Its parts are the groups of calls, user time, and the rest, which
neither explains."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kit.analysis.runs.compare import Comparison, compare, compare_paired, is_control
from kit.analysis.runs.paired import Paired
from kit.analysis.runs.run_table import Key, Runs
from kit.analysis.stats.estimate import Interval
from kit.analysis.stats.estimators import Floats, robust_centre, welch
from kit.analysis.traces.call_groups import WITHIN, group_of, held
from kit.model.call import (
    CALL,
    COPY_UP,
    DIRECTORY,
    FAULT,
    FILE,
    FUNCTION,
    FUSE,
    LOST,
    NO_DATA,
    UNMARKED,
    UNSEEN,
    WITH_DATA,
    Call,
)
from kit.model.sample import TOTAL, TRACED, Sample

#: Parts of process time in measured runs, by name of the metric; the second if no control group counts it.
_CPU, _USER, _SYS = ("cpu",), ("cgroup_user", "user"), ("cgroup_sys", "sys")


@dataclass(frozen=True)
class CallPart:
    """Calls of one group, or of one name in it, on the arm and on its baseline."""

    group: str
    name: str
    count: float  # calls per run
    base_count: float
    cost: float  # seconds per run
    base_cost: float
    difference: Interval  # in seconds per run, with its 95 % interval
    share: float | None  # of the whole difference; None if that is not significant
    errors: tuple[tuple[str, float], ...] = ()  # failures on the arm, by errno
    base_errors: tuple[tuple[str, float], ...] = ()  # failures on the baseline

    @property
    def each(self) -> float | None:
        """Return the seconds of one call on the arm; None without calls."""
        return self.cost / self.count if self.count else None

    @property
    def base_each(self) -> float | None:
        return self.base_cost / self.base_count if self.base_count else None


@dataclass(frozen=True)
class CopyUps:
    """Files and directories copied from lower layers to the upper one, per run."""

    files: float = 0.0
    directories: float = 0.0
    bytes: float = 0.0  # the files' size
    #: Greatest number of unions in a run whose upper directory was not found: their copies are missing here.
    unseen: int = 0
    #: Of the files' data, what copying wrote at most, less for clones and holes; None if not known.
    copied_bytes: float | None = None
    #: Other files that were copied or created: their union marks no copies of such files.
    unmarked: float = 0.0


@dataclass(frozen=True)
class CallCosts:
    """One arm against its baseline in one phase. ``whole`` = ``groups`` + ``user`` + ``rest``, in seconds per run."""

    arm: str
    baseline: str
    point: str
    phase: str
    n: int  # traced rounds
    whole: Interval
    real: Interval  # real time of measured runs
    groups: tuple[CallPart, ...]
    calls: tuple[CallPart, ...]  # the members of ``groups``
    fuse: tuple[CallPart, ...]  # requests to a FUSE daemon; calls contain their time
    user: Interval
    rest: Interval  # faults and tracing: CPU of the kernel outside calls
    #: Calls that were not recorded, per run, of the arm and its baseline.
    lost: tuple[float, float] = (0.0, 0.0)
    copied: CopyUps = CopyUps()  # on the arm
    functions: tuple[CallPart, ...] = ()  # of the kernel; calls contain their time

    def share(self, part: Interval) -> float | None:
        """Return the share of the whole difference that a part is; None where the whole is not significant."""
        return part.estimate / self.whole.estimate if self.whole.estimate and self.whole.leaves_out(0.0) else None


@dataclass(frozen=True)
class Overhead:
    """How many times as long an arm's traced runs take as its measured ones, real time of the whole run."""

    arm: str
    point: str
    ratio: Interval


def compare_calls(samples: Sequence[Sample], runs: Runs, baselines: Sequence[tuple[str, str]]) -> tuple[CallCosts, ...]:
    """Return the costs of every pair (arm, baseline) whose calls were traced, in every phase and in total. ``runs``:
    the measured ones."""
    traced = traced_runs([sample for sample in samples if any(phase.calls for phase in sample.phases)])
    costs: list[CallCosts] = []
    for point in traced.points:
        pairs = [((arm, point), (base, point)) for arm, base in baselines if not is_control(arm)]
        pairs = [pair for pair in pairs if all(of.has(key) for key in pair for of in (traced, runs))]
        pairs = [pair for pair in pairs if runs.common(pair)[0].size]
        keys = list(dict.fromkeys(key for pair in pairs for key in pair))
        for phase in traced.phases(keys) if keys else ():
            costs += _phase(traced, runs, pairs, phase)
    return tuple(costs)


def traced_runs(samples: Sequence[Sample]) -> Runs:
    """Return the runs of traced rounds, in the form that statistics take."""
    return Runs([replace(sample, kind="measured") for sample in samples if sample.kind == TRACED])


def overheads(samples: Sequence[Sample], runs: Runs) -> tuple[Overhead, ...]:
    traced = traced_runs(samples)
    ratios = []
    for key in dict.fromkeys((sample.arm, sample.point) for sample in samples if sample.kind == TRACED):
        if traced.has(key) and runs.has(key):
            phase = traced.phases([key])[-1]
            logs = [robust_centre(np.log(of.values(key, phase, "real"))) for of in (runs, traced)]
            difference = welch(logs[0], logs[1])
            ends = [None if end is None else math.exp(end) for end in (difference.low, difference.high)]
            ratios.append(Overhead(*key, Interval(math.exp(difference.estimate), ends[0], ends[1], difference.n)))
    return tuple(ratios)


@dataclass(frozen=True)
class _Table:
    """Calls of one arm in one phase, by (kind, group, name): counts and costs in every traced run."""

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
        members = [name for name in names if name[1] == group[1] and name[0] in (CALL, FAULT)]
        columns[group] = {key: np.sum([columns[name][key] for name in members], axis=0) for key in keys}
    differences = {name: _differences(traced, pairs, values, phase) for name, values in columns.items()}
    holding = _differences(traced, pairs, {key: tables[key].held for key in keys}, phase)
    computing = _differences(traced, pairs, {key: tables[key].cpu for key in keys}, phase)
    measured = {name: _measured(runs, pairs, phase, name) for name in ("real", *_CPU, *_USER, *_SYS)}
    for pair in pairs:
        if pair not in holding:
            continue
        real, cpu, user, sys = (_first(measured, of, pair) for of in (("real",), _CPU, _USER, _SYS))
        whole = plus(cpu, _interval(holding[pair]))
        remainder = plus(sys, _interval(computing[pair]), -1.0)
        share = None if whole.leaves_out(0.0) is False else whole.estimate
        arm, base = (tables[key] for key in pair)
        parts = {
            name: _part(name, arm, base, _mean(columns[name][pair[0]]), _mean(columns[name][pair[1]]),
                        _interval(by_pair[pair]), share)
            for name, by_pair in differences.items() if pair in by_pair
        }  # fmt: skip
        yield CallCosts(
            pair[0][0], pair[1][0], pair[0][1], phase, holding[pair].n, whole, real,
            _sorted(parts, groups), _sorted(parts, [name for name in names if name[0] in (CALL, FAULT)]),
            _sorted(parts, [name for name in names if name[0] == FUSE]), user, remainder, (arm.lost, base.lost),
            arm.copied,
            _sorted(parts, [name for name in names if name[0] == FUNCTION]),
        )  # fmt: skip


def _sorted(
    parts: Mapping[tuple[str, str, str], CallPart], names: Sequence[tuple[str, str, str]]
) -> tuple[CallPart, ...]:
    """Return the parts, the largest difference first."""
    present = [parts[name] for name in names if name in parts]
    return tuple(sorted(present, key=lambda part: -abs(part.difference.estimate)))


def _part(
    name: tuple[str, str, str], arm: _Table, base: _Table, cost: float, base_cost: float, difference: Interval,
    whole: float | None,
) -> CallPart:  # fmt: skip
    _, group, call = name
    counts = [
        sum(_mean(values) for key, values in table.counts.items() if key == name or (not call and key[:2] == name[:2]))
        for table in (arm, base)
    ]
    share = difference.estimate / whole if whole else None
    errors = [tuple(sorted(table.errors.get(name, {}).items())) for table in (arm, base)]
    return CallPart(group, call, counts[0], counts[1], cost, base_cost, difference, share, errors[0], errors[1])


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
    copied = [call for call in calls if call.kind == COPY_UP]
    counts, sizes = (dict.fromkeys((FILE, DIRECTORY, UNMARKED, WITH_DATA, NO_DATA), 0.0) for _ in range(2))
    for call in copied:
        if call.name in counts:
            counts[call.name] += call.count / runs
            sizes[call.name] += call.bytes / runs
    unseen = max((call.count for call in copied if call.name == UNSEEN), default=0)
    data = sizes[WITH_DATA] if counts[WITH_DATA] and not counts[NO_DATA] else None
    return CopyUps(counts[FILE], counts[DIRECTORY], sizes[FILE], unseen, data, counts[UNMARKED])


def _calls(sample: Sample, phase: str) -> list[Call]:
    return [call for part in sample.phases if phase in (part.name, TOTAL) for call in part.calls]


def _column(costs: Mapping[tuple[str, str, str], Floats], name: tuple[str, str, str], traced: Runs, key: Key) -> Floats:
    return costs.get(name, np.zeros(traced.rounds(key).size))


def _differences(
    traced: Runs, pairs: Sequence[tuple[Key, Key]], values: Mapping[Key, Floats], phase: str
) -> dict[tuple[Key, Key], Comparison]:
    """Return the differences, paired within rounds; arms share the estimate of noise."""
    paired = {}
    for arm, base in pairs:
        ours, theirs = traced.common([arm, base])
        if ours.size:
            paired[arm, base] = Paired(arm, base, "cost", values[arm][ours], values[base][theirs], None, None)
    comparisons = compare_paired(list(paired.values()), phase, len(paired))
    return dict(zip(paired, comparisons, strict=True))


def _measured(runs: Runs, pairs: Sequence[tuple[Key, Key]], phase: str, metric: str) -> dict[tuple[Key, Key], Interval]:
    listed = [(arm[0], base[0]) for arm, base in pairs]
    comparisons = compare(runs, listed, (metric,))
    # A workload may report figures of its own besides this metric.
    matching = (comparison for comparison in comparisons if (comparison.phase, comparison.metric) == (phase, metric))
    by_pair = {(comparison.arm, comparison.baseline, comparison.point): comparison for comparison in matching}
    keyed = {pair: by_pair.get((pair[0][0], pair[1][0], pair[0][1])) for pair in pairs}
    return {pair: _interval(comparison) for pair, comparison in keyed.items() if comparison}


def _first(
    measured: Mapping[str, Mapping[tuple[Key, Key], Interval]], names: Sequence[str], pair: tuple[Key, Key]
) -> Interval:
    """Return the first of these metrics that was measured; the last one always is."""
    return next(measured[name][pair] for name in names if pair in measured[name])


def _interval(comparison: Comparison) -> Interval:
    return Interval(comparison.difference, comparison.difference_low, comparison.difference_high, comparison.n)


def plus(first: Interval, second: Interval, sign: float = 1.0) -> Interval:
    """Return the sum or difference of two independent estimates. Its interval follows from the method of variance
    estimates recovery (Zou and Donner 2008), here of symmetrical intervals."""
    estimate = first.estimate + sign * second.estimate
    if first.high is None or second.high is None:
        return Interval(estimate, None, None, min(first.n, second.n))
    half = math.hypot(first.high - first.estimate, second.high - second.estimate)
    return Interval(estimate, estimate - half, estimate + half, min(first.n, second.n))


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else 0.0
