"""Parts of process time: they add up, and their intervals hold what was put into made-up runs as often as they say."""

from dataclasses import replace

import numpy as np
import pytest

from kit.analysis.runs.run_table import Runs
from kit.analysis.stats.estimate import Interval
from kit.extra.tracing.analysis.calls import (
    CallCosts,
    CopyUps,
    compare_calls,
    group_of,
    held,
    overheads,
    plus,
    traced_runs,
)
from kit.model.sample import (
    COPY_UP,
    FAULT,
    FILE,
    FUNCTION,
    FUSE,
    LOST,
    NO_DATA,
    UNMARKED,
    WITH_DATA,
    Call,
    Phase,
    Sample,
)
from kit.parsers.figure import Reported

PAIRS = (("slow", "bare"), ("same", "bare"))
#: Seconds per run: what calls take on a CPU on the baseline, what more on ``slow``; held up; user time; faults.
CALLS = {"openat": (0.4, 0.2), "newfstatat": (0.2, 0.05), "read": (0.1, 0.0)}
DISK, USER, FAULTS = (0.3, 0.1), (2.0, 0.15), (0.2, 0.02)
#: What tracing adds to each call, and to the CPU of a run: the first cancels where counts are alike.
PROBE, TRACING = 0.05, 1.1


def made(arm: str, round_: int, kind: str, rng: np.random.Generator, noise: float = 0.01) -> Sample:
    def value(base: float, more: float) -> float:
        return float((base + (more if arm == "slow" else 0.0)) * (1 + noise * rng.standard_normal()))

    calls = {name: value(*cost) for name, cost in CALLS.items()}
    disk, user, sys = value(*DISK), value(*USER), sum(calls.values()) + value(*FAULTS)
    if kind != "traced":
        return Sample(arm, round_, kind, "ok", 0.0, (Phase("work", "ok", 3.0, user, sys, user, sys),))
    rows = [Call(name, 1000, seconds + PROBE) for name, seconds in calls.items()]
    rows[2] = replace(rows[2], seconds=rows[2].seconds + disk, disk=disk)
    rows += [Call("wait4", 5, 7.0, slept=6.999), Call("LOOKUP", 9, 0.1, kind=FUSE)]
    rows.append(Call("ovl_copy_up_one", 9, 0.1, kind=FUNCTION))
    phase = Phase("work", "ok", 3.0 * TRACING, user, sys * TRACING, user, sys * TRACING, calls=tuple(rows))
    return Sample(arm, round_, kind, "ok", 0.0, (phase,))


def session(seed: int, rounds: int = 5, traced: int = 3) -> list[Sample]:
    rng = np.random.default_rng(seed)
    every = [("measured", number) for number in range(1, rounds + 1)]
    every += [("traced", number) for number in range(1, traced + 1)]
    return [made(arm, round_, kind, rng) for kind, round_ in every for arm in ("bare", "slow", "same")]


def analysed(samples: list[Sample]) -> tuple[CallCosts, ...]:
    return compare_calls(samples, Runs(samples), PAIRS)


def holds(interval: Interval, truth: float) -> bool:
    return not interval.leaves_out(truth)


def test_parts_and_the_rest_add_up_to_the_whole_exactly() -> None:
    for item in analysed(session(1)):
        parts = sum(part.difference.estimate for part in item.groups)
        assert parts + item.user.estimate + item.rest.estimate == pytest.approx(item.whole.estimate, abs=1e-12)
        by_call = sum(part.difference.estimate for part in item.calls)
        assert by_call == pytest.approx(parts, abs=1e-12)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    truth = {"open": 0.2, "stat": 0.05, "read": 0.1, "wait for others": 0.0}
    held_: list[bool] = []
    for seed in range(40):
        for item in analysed(session(seed)):
            slow = item.arm == "slow"
            whole = 0.2 + 0.05 + 0.1 + 0.15 + 0.02
            found = {part.group: part.difference for part in item.groups}
            held_ += [holds(found[group], value * slow) for group, value in truth.items() if group != "wait for others"]
            held_ += [holds(item.user, 0.15 * slow), holds(item.rest, 0.02 * slow), holds(item.whole, whole * slow)]
    assert len(held_) == 480
    # Binomial, and intervals of one session share their noise: 95 % of 480, give or take.
    assert 0.92 < np.mean(held_) < 0.99


def test_figures_that_a_workload_reports_are_no_process_time() -> None:
    plain = analysed(session(1))
    more = [
        replace(item, phases=(replace(item.phases[0], reported=(Reported("files", 1e6 * item.round, "per s"),)),))
        for item in session(1)
    ]
    assert [item.whole for item in analysed(more)] == [item.whole for item in plain]


def test_what_was_put_in_is_significant_and_nothing_else_is() -> None:
    slow, same = analysed(session(2))
    assert [part.group for part in slow.groups[:3]] == ["open", "read", "stat"]
    assert slow.groups[0].share == pytest.approx(0.2 / 0.52, abs=0.05)
    assert (slow.calls[0].name, slow.calls[0].count, slow.calls[0].base_count) == ("openat", 1000, 1000)
    assert all(part.share is None for part in same.groups)


def test_waiting_for_others_is_no_cost_and_a_daemon_s_requests_are_in_the_calls_that_wait_for_them() -> None:
    (item, _) = analysed(session(3))
    waiting = next(part for part in item.groups if part.group == "wait for others")
    assert waiting.cost == pytest.approx(0.001, abs=1e-9)
    assert [part.name for part in item.fuse] == ["LOOKUP"]
    assert [(part.name, part.count) for part in item.functions] == [("ovl_copy_up_one", 9)]
    assert not {"LOOKUP", "ovl_copy_up_one"} & {part.name for part in item.calls}


def test_what_holds_a_call_up() -> None:
    times = {"seconds": 1.0, "disk": 0.1, "daemon": 0.2, "slept": 0.3}
    wanted = {"newfstatat": 0.6, "read": 0.3, "close": 0.3, "futex": 0.0, "vfork": 0.0, "ioctl": 0.3}
    assert {name: round(held(Call(name, 1, **times)), 9) for name in wanted} == wanted  # type: ignore[arg-type]
    assert held(Call("page fault", 1, 0.5, 0.5, kind=FAULT)) == 0.5
    assert group_of(Call("page fault", 1, kind=FAULT)) == group_of(Call("mmap", 1))


def test_measured_comparisons_know_nothing_of_traced_runs() -> None:
    samples = session(4)
    assert {sample.kind for sample in Runs(samples).samples(("bare", ""))} == {"measured"}
    assert len(traced_runs(samples).samples(("bare", ""))) == 3
    assert [item.ratio.estimate for item in overheads(samples, Runs(samples))] == [pytest.approx(TRACING)] * 3


def test_without_a_traced_pair_nothing_is_said() -> None:
    samples = [sample for sample in session(5) if sample.kind != "traced" or sample.arm == "bare"]
    assert analysed(samples) == ()


def test_calls_that_were_not_recorded_are_counted() -> None:
    samples = session(6)
    lost = Call("not recorded", 30, kind=LOST)
    samples = [
        replace(item, phases=(replace(item.phases[0], calls=(*item.phases[0].calls, lost)),))
        if (item.kind, item.arm, item.round) == ("traced", "slow", 1)
        else item
        for item in samples
    ]
    assert [item.lost for item in analysed(samples)] == [(10.0, 0.0), (0.0, 0.0)]


def test_the_sum_of_two_that_are_known_independently() -> None:
    made_ = plus(Interval(1.0, 0.7, 1.3, 3), Interval(2.0, 1.6, 2.4, 5), -1.0)
    assert [made_.estimate, made_.low, made_.high] == pytest.approx([-1.0, -1.5, -0.5]) and made_.n == 3
    assert plus(Interval(1.0, None, None, 1), made_).low is None


def test_copied_data_are_known_only_if_they_are_of_all_files() -> None:
    files, data = Call(FILE, 3, bytes=900, kind=COPY_UP), Call(WITH_DATA, 2, bytes=30, kind=COPY_UP)
    lacking = Call(NO_DATA, 1, kind=COPY_UP)

    def copied(*rows: Call) -> CopyUps:
        samples = session(1)
        traced = [item for item in samples if item.kind == "traced" and item.arm == "slow"]
        phases = {id(item): (replace(item.phases[0], calls=(*item.phases[0].calls, *rows)),) for item in traced}
        return analysed([replace(item, phases=phases.get(id(item), item.phases)) for item in samples])[0].copied

    assert copied(files, data) == CopyUps(3.0, bytes=900.0, copied_bytes=30.0)
    assert copied(files, data, lacking) == CopyUps(3.0, bytes=900.0)
    assert copied(Call(UNMARKED, 2, kind=COPY_UP)) == CopyUps(unmarked=2.0)
