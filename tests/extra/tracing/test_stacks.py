"""Profiles made up, of which the truth is known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from kit.extra.tracing.analysis.flame import grow_flame
from kit.extra.tracing.analysis.stacks import (
    INCLUSIVE,
    OTHERS,
    PART,
    PATH,
    SELF,
    ProfiledRun,
    StackCost,
    by_function,
    by_part,
    by_path,
    by_self,
    compare_stacks,
)
from kit.model.profile import KERNEL, LOOP, WORKLOAD, Stack

QUANTUM = 0.002
PAIRS = (("layer:overlay2", "bare"), ("layer:btrfs", "bare"))
#: Seconds of CPU of forty functions on the baseline, from a second down to a few samples, each called by one of four.
TRUTH: Mapping[Stack, float] = {
    (WORKLOAD, "cc1", f"call{i % 4}", f"function{i}"): 1.0 / (1 + i) ** 0.8 for i in range(40)
}


#: Of kernel threads, which work when they find time: half as much again in one run, or two thirds.
THREADS: Mapping[Stack, float] = {(KERNEL, "kworker", f"thread{i}"): 0.05 for i in range(10)}


def run(round_: int, truth: Mapping[Stack, float], dice: np.random.Generator, drift: float = 0.0) -> ProfiledRun:
    """Counts of samples, as chance has them, on a machine that is ``drift`` faster or slower in this run."""
    speed = float(np.exp(drift * dice.standard_normal()))
    threads = {stack: seconds * float(np.exp(0.4 * dice.standard_normal())) for stack, seconds in THREADS.items()}
    every = {**truth, **threads}
    counts = {stack: int(dice.poisson(seconds * speed / QUANTUM)) for stack, seconds in every.items()}
    return ProfiledRun(round_, {stack: count * QUANTUM for stack, count in counts.items() if count}, QUANTUM)


def session(
    seed: int, dearer: Mapping[Stack, float], by: str, rounds: int = 3, drift: float = 0.0
) -> tuple[StackCost, ...]:
    """``dearer``: seconds that the first arm takes more."""
    dice = np.random.default_rng(seed)
    more = {stack: TRUTH.get(stack, 0.0) + dearer.get(stack, 0.0) for stack in {**TRUTH, **dearer}}
    arms = {"bare": TRUTH, "layer:overlay2": more, "layer:btrfs": TRUTH}
    made = {arm: [run(round_, truth, dice, drift) for round_ in range(1, rounds + 1)] for arm, truth in arms.items()}
    return compare_stacks(made, PAIRS, by)


def test_a_second_is_one_functions_own_and_that_of_all_that_called_it() -> None:
    stacks: Mapping[Stack, float] = {
        (WORKLOAD, "cc1", "open", "lookup"): 2.0,
        (WORKLOAD, "cc1", "open", "open", "lookup"): 1.0,  # calls itself
        (WORKLOAD, "as", "open"): 0.5,
        (LOOP, "kworker"): 0.25,
    }
    assert by_self(stacks) == {("lookup",): 3.0, ("open",): 0.5, ("kworker",): 0.25}
    assert by_function(stacks) == {("open",): 3.5, ("lookup",): 3.0}
    assert by_part(stacks) == {(WORKLOAD,): 3.5, (LOOP,): 0.25}
    assert by_path(stacks)[WORKLOAD, "cc1", "open"] == 3.0
    assert by_path(stacks)[WORKLOAD, "cc1"] == 3.0


def test_parts_make_up_the_whole_difference() -> None:
    new: Stack = (WORKLOAD, "cc1", "call0", "ovl_lookup")
    for by in (SELF, PART):
        found = [item for item in session(1, {new: 0.3}, by) if item.arm == "layer:overlay2"]
        assert sum(item.base_mean for item in found) == pytest.approx(sum(TRUTH.values()), rel=0.1)
        assert sum(item.difference.estimate for item in found) == pytest.approx(0.3, abs=0.2)
        assert OTHERS in {item.name[0] for item in found}


def test_what_costs_more_is_found_and_nothing_else() -> None:
    new: Stack = (WORKLOAD, "cc1", "call0", "ovl_lookup")
    for by in (SELF, INCLUSIVE):
        found = session(2, {new: 0.3}, by)
        first = found[0]
        assert (
            (first.name[0] in ("ovl_lookup", "call0"))
            and first.difference.significant
            and first.difference.low is not None
        )
        assert first.difference.low < 0.3 < (first.difference.high or 0)
        assert {item.name[0] for item in found if item.difference.significant} <= {"ovl_lookup", "call0"}
    paths = {item.name: item for item in session(2, {new: 0.3}, PATH) if item.arm == "layer:overlay2"}
    assert paths[new].difference.significant and not paths[WORKLOAD, "cc1", "call1"].difference.significant


@pytest.mark.parametrize(("rounds", "drift"), [(2, 0.0), (3, 0.02), (5, 0.02)])
def test_intervals_hold_as_often_as_they_say(rounds: int, drift: float) -> None:
    """Of a session's 104 differences each one in 95 of 100 sessions, and all of them at once in as many."""
    new: Stack = (WORKLOAD, "cc1", "call0", "ovl_lookup")
    sessions, alone, held, together = 25, 0, 0, 0
    for seed in range(sessions):
        found = session(seed, {new: 0.2}, SELF, rounds, drift)
        truth = [0.2 if item.name == ("ovl_lookup",) and item.arm == "layer:overlay2" else 0.0 for item in found]
        for item, true in zip(found, truth, strict=True):
            assert item.difference.low is not None
            held += not item.difference.leaves_out(true)
            alone += 1
        together += all(not item.difference.together.leaves_out(true) for item, true in zip(found, truth, strict=True))
    assert held / alone >= 0.935, held / alone
    assert together >= sessions - 3, together


def test_one_round_has_no_interval() -> None:
    found = session(3, {}, SELF, rounds=1)
    assert all(
        item.difference.low is None and not item.difference.significant and item.difference.n == 1 for item in found
    )


def test_arms_without_a_common_round_are_not_compared() -> None:
    dice = np.random.default_rng(4)
    made = {"bare": [run(1, TRUTH, dice)], "layer:overlay2": [run(2, TRUTH, dice)], "layer:btrfs": []}
    assert compare_stacks(made, PAIRS, SELF) == ()


def test_a_flame_is_the_mean_of_the_runs_with_what_is_too_narrow_left_out() -> None:
    stacks: Mapping[Stack, float] = {
        (LOOP, "kworker", "loop_process_work"): 1.0,
        (WORKLOAD, "cc1", "b"): 2.0,
        (WORKLOAD, "cc1", "a", "c"): 4.0,
        (WORKLOAD, "cc1", "narrow"): 0.001,
    }
    half = {stack: seconds / 2 for stack, seconds in stacks.items()}
    flame = grow_flame([ProfiledRun(1, stacks, QUANTUM), ProfiledRun(2, half, QUANTUM)])
    assert flame.seconds == pytest.approx(7.001 * 0.75) and flame.depth == 5
    assert [frame.name for frame in flame.below] == [WORKLOAD, LOOP]
    (cc1,) = flame.below[0].below
    assert [(frame.name, frame.seconds) for frame in cc1.below] == [("a", 3.0), ("b", 1.5)]
