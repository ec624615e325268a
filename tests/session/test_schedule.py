"""The schedule with made-up runs: what is run, in which block, and why it ends."""

import random
from collections.abc import Callable
from dataclasses import replace
from zlib import crc32

import pytest

from kit.analysis.columns import Runs
from kit.analysis.ranking import rank
from kit.model.arm import parse_arms
from kit.model.plan import SEQUENTIAL_ROUNDS, Plan, PlanStep, make_plan
from kit.model.sample import INTERLEAVED, RUN_ORDER, Phase, Sample
from kit.session import schedule
from kit.session.schedule import Block, End, Schedule

ARMS = parse_arms("bare,layer:overlay2,layer:vfs")
NAMES = [str(arm) for arm in ARMS]
Real = Callable[[PlanStep], float]


def run(step: PlanStep, real: float, steal: float = 0.0) -> Sample:
    phase = Phase("build", "ok", real, steal=steal)
    return Sample(
        str(step.arm), step.block, step.kind, "ok", 0.0, (phase,), 0.004, 0.004, point=step.point, repeats=step.repeats
    )


def play(plan: Plan, real: Real, steal: Real = lambda step: 0.0) -> tuple[list[Block], list[Sample], End]:
    schedule = Schedule(plan, [str(arm) for arm in plan.arms])
    blocks: list[Block] = []
    samples: list[Sample] = []
    while isinstance(block := schedule.next(samples), Block):
        blocks.append(block)
        samples += [run(step, real(step), steal(step)) for step in block.steps]
    return blocks, samples, block


def wobble(share: float) -> Real:
    """Times that differ from block to block by about this share, in an order that is no trend."""

    def real(step: PlanStep) -> float:
        return 10 * (1 + share * (crc32(f"{step.arm} {step.block}".encode()) % 100 - 50) / 50)

    return real


def test_fixed_rounds_after_a_warm_up() -> None:
    blocks, _, end = play(make_plan(ARMS, 3, 1), wobble(0.1))
    assert [block.number for block in blocks] == [0, 1, 2, 3]
    assert end.reason == "3 rounds, as planned"


def test_precision_goes_on_until_it_is_reached_and_not_longer() -> None:
    blocks, _, end = play(make_plan(ARMS, 3, 1, "cold", precision=0.02), wobble(0.03))
    assert SEQUENTIAL_ROUNDS < len(blocks) < 60
    assert end.reason == "every interval was within ±2% of its ratio one round ago"
    quiet, _, _ = play(make_plan(ARMS, 3, 1, "cold", precision=0.02), wobble(0.001))
    assert len(quiet) == SEQUENTIAL_ROUNDS


def test_settled_arms_drop_out_but_not_their_baseline_or_the_control() -> None:
    def real(step: PlanStep) -> float:
        return wobble(0.05 if str(step.arm) == "layer:vfs" else 0.001)(step)

    blocks, _, _ = play(make_plan(ARMS, 3, 1, "cold", precision=0.01), real)
    last = {str(step.arm) for step in blocks[-1].steps}
    assert last == {"bare", "bare+control", "layer:vfs"}
    assert "layer:vfs not within ±1.0% yet" in blocks[-1].reason


def test_a_rung_stays_as_long_as_the_ladder_needs_it() -> None:
    arms = parse_arms("bare,runtime,bind:overlay2,layer:overlay2,layer:vfs")

    def real(step: PlanStep) -> float:
        return wobble(0.05 if str(step.arm) == "layer:overlay2" else 0.001)(step)

    blocks, _, _ = play(make_plan(arms, 3, 1, "cold", precision=0.02, control=False), real)
    last = {str(step.arm) for step in blocks[-1].steps}
    assert last == {"bare", "runtime:overlay2", "bind:overlay2", "layer:overlay2"}


def test_nothing_precise_ends_after_the_most_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "MOST_ROUNDS", 20)
    blocks, _, end = play(make_plan(ARMS[:2], 3, 1, "cold", precision=0.0001), wobble(0.05))
    assert len(blocks) == 20
    assert end.reason == "20 rounds: the most that are made"


def test_no_block_begins_that_the_budget_does_not_last_for() -> None:
    schedule = Schedule(make_plan(ARMS, 3, 1, "cold", budget=100.0), NAMES)
    assert isinstance(schedule.next([], left=100.0, run_seconds=10.0), Block)
    end = Schedule(make_plan(ARMS, 3, 1, "cold", budget=100.0), NAMES).next([], left=29.0, run_seconds=10.0)
    assert isinstance(end, End) and end.reason == "the budget does not last for round 1"


def test_a_budget_alone_goes_on_while_it_lasts() -> None:
    schedule = Schedule(make_plan(ARMS, 1, 1, "cold", budget=1000.0), NAMES)
    samples: list[Sample] = []
    for _ in range(5):
        block = schedule.next(samples, left=1000.0, run_seconds=1.0)
        assert isinstance(block, Block)
        samples += [run(step, 1.0) for step in block.steps]


def test_a_stopped_session_goes_on_where_it_was() -> None:
    plan = make_plan(ARMS, 3, 1, "cold", precision=0.02)
    blocks, samples, _ = play(plan, wobble(0.03))
    again = Schedule(plan, [str(arm) for arm in plan.arms])
    kept = samples[: len(samples) // 2]
    block = again.next(kept)
    assert isinstance(block, Block)
    whole = [step for item in blocks for step in item.steps]
    assert block.steps == tuple(step for step in whole[len(kept) :] if step.block == block.number)


def test_of_a_block_by_turns_all_is_run_again_or_nothing() -> None:
    plan = make_plan(ARMS, 2, 1, "cold", control=False, interleave=0.5)
    _, samples, _ = play(plan, wobble(0.01))
    block = Schedule(plan, NAMES).next(samples[:-1])
    assert isinstance(block, Block) and block.number == 2 and len(block.steps) == 3
    assert isinstance(Schedule(plan, NAMES).next(samples), End)


def test_a_point_whose_arms_have_had_their_turns_is_not_run_again() -> None:
    plan = make_plan(ARMS, 1, 1, "cold", control=False, interleave=0.5, points=("jobs=1", "jobs=2"))
    _, samples, _ = play(plan, wobble(0.01))
    left = next(item for item in samples if item.point == "jobs=2")
    block = Schedule(plan, NAMES).next([item for item in samples if item is not left])
    assert isinstance(block, Block) and [step.point for step in block.steps] == ["jobs=2"] * 3


def test_blocks_hit_by_a_burst_are_run_again_with_what_the_arm_is_compared_with() -> None:
    def steal(step: PlanStep) -> float:
        return 5.0 if (step.block, str(step.arm), step.repeats) == (2, "layer:vfs", None) else 0.0

    blocks, samples, end = play(make_plan(ARMS, 3, 1), wobble(0.03), steal)
    again = blocks[-1]
    assert again.number == 4
    assert {str(step.arm) for step in again.steps} == {"bare", "layer:vfs"}
    assert {step.repeats for step in again.steps} == {2}
    assert again.reason == "round 2 once more: layer:vfs steal 50%"
    assert end.reason == "3 rounds, as planned"
    rest = Schedule(make_plan(ARMS, 3, 1), NAMES)
    assert isinstance(rest.next(samples), End)  # what was repeated is not repeated again
    blocks, _, _ = play(make_plan(ARMS, 3, 1, repeats=False), wobble(0.03), steal)
    assert [block.number for block in blocks if block.number] == [1, 2, 3]


def test_what_would_share_no_block_with_a_repeated_run_is_run_again_too() -> None:
    def steal(step: PlanStep) -> float:
        return 5.0 if (str(step.arm), step.repeats) == ("layer:vfs", None) else 0.0

    blocks, samples, _ = play(make_plan(ARMS, 1, 1), wobble(0.03), steal)
    assert {str(step.arm) for step in blocks[-1].steps if step.repeats} == set(NAMES)
    (ranking,) = rank(Runs(samples), NAMES)
    assert {row.arm for row in ranking.rows} == set(NAMES)
    (ranking,) = rank(Runs(item for item in samples if not (item.arm == "layer:vfs" and item.repeats is None)
                           and not (item.arm != "layer:vfs" and item.repeats)), NAMES)  # fmt: skip
    assert ranking.unranked == ("layer:vfs",)


def test_a_machine_that_is_never_quiet_is_not_run_for_ever() -> None:
    blocks, _, _ = play(make_plan(ARMS, 8, 1, "cold"), wobble(0.03), lambda step: 5.0)
    assert len(blocks) == 8 + 2


def test_an_arm_that_is_hit_by_its_own_doing_is_not_run_again() -> None:
    def steal(step: PlanStep) -> float:
        return 5.0 if str(step.arm) == "layer:vfs" and step.block % 2 else 0.0

    blocks, _, _ = play(make_plan(ARMS, 10, 1, "cold"), wobble(0.03), steal)
    assert len(blocks) == 10


def penalties(noise: float = 0.0, **shares: float) -> Real:
    """Times of arms that cost so much more than others, by the last word of their names, and differ by chance."""

    def real(step: PlanStep) -> float:
        chance = random.Random(f"{step.arm} {step.block} {step.point}").gauss(0, noise)
        return 10 * (1 + chance) * (1 + shares.get(str(step.arm).rpartition(":")[2], 0.0))

    return real


def test_a_session_of_open_end_stops_when_each_arm_is_decided() -> None:
    blocks, _, end = play(make_plan(ARMS, 0, 1, "cold"), penalties(0.001, vfs=0.1))
    assert [block.number for block in blocks] == [1, 2, 3]
    assert end.reason == (
        "decided after 3 rounds: each arm is significantly different from layer:overlay2 or equivalent within ±3 %"
    )
    blocks, samples, end = play(make_plan(ARMS, 0, 1, "cold"), penalties(0.015))
    assert 3 < len(blocks) < 30 and end.reason.startswith(f"decided after {len(blocks)} rounds")
    assert blocks[3].reason == "round 4: layer:vfs undecided"
    rounds = [rank(Runs(samples), NAMES, rounds=len(blocks))[0].rows]
    assert {row.verdict for row in rounds[0] if row.pick} == {"reference", "equivalent"}
    tight, _, _ = play(make_plan(ARMS, 0, 1, "cold", margin=0.3), penalties(0.015))
    assert len(tight) == 3


def test_an_arm_that_is_much_worse_drops_out_after_the_least_rounds() -> None:
    arms = parse_arms("bare,layer:overlay2,layer:vfs,bind:vfs,layer:btrfs@dir")
    blocks, _, _ = play(make_plan(arms, 0, 1, "cold", control=False), penalties(0.01, vfs=1.4))
    assert {str(step.arm) for step in blocks[2].steps} == {str(arm) for arm in make_plan(arms, 0, 1).arms} - {
        "bare+control"
    }
    assert not {"layer:vfs", "bind:vfs"} & {str(step.arm) for step in blocks[3].steps}
    assert blocks[3].reason.endswith("; without bind:vfs, layer:vfs: more than 20% worse than layer:overlay2")
    assert {"bare", "layer:overlay2"} <= {str(step.arm) for step in blocks[-1].steps}


def test_a_rung_that_is_much_worse_stays_for_the_ladder_of_an_undecided_arm() -> None:
    arms = parse_arms("bare,runtime,layer:vfs,bind:overlay2,layer:overlay2,bind:vfs")

    def real(step: PlanStep) -> float:
        return penalties(0.02)(step) * (1.6 if str(step.arm) == "bind:vfs" else 1.0)

    blocks, _, _ = play(make_plan(arms, 0, 1, "cold"), real)
    assert "layer:vfs" in blocks[3].reason
    assert {"bind:vfs", "layer:vfs"} <= {str(step.arm) for step in blocks[3].steps}


def test_one_arm_with_bare_is_decided_against_it_and_one_alone_ends_after_three_rounds() -> None:
    blocks, _, end = play(make_plan(ARMS[:2], 0, 1, "cold"), penalties(0.001, overlay2=0.1))
    assert len(blocks) == 3 and end.reason.startswith("decided after 3 rounds")
    blocks, _, _ = play(make_plan(ARMS[:2], 0, 1, "cold"), penalties(0.03))
    assert len(blocks) > 4
    blocks, _, end = play(make_plan(ARMS[:1], 0, 1, "cold"), penalties(0.03))
    assert len(blocks) == 3 and end.reason == "3 rounds: one arm, nothing to compare it with"


def test_an_arm_whose_runs_fail_is_not_waited_for() -> None:
    plan = make_plan(ARMS, 0, 1, "cold")
    schedule = Schedule(plan, [str(arm) for arm in plan.arms])
    samples: list[Sample] = []
    while isinstance(block := schedule.next(samples), Block):
        made = [run(step, penalties(0.001)(step)) for step in block.steps]
        samples += [
            replace(item, status="failed") if item.arm == "layer:vfs" and item.block > 1 else item for item in made
        ]
    assert {item.block for item in samples} == {1, 2, 3}


def test_every_point_must_be_decided() -> None:
    plan = make_plan(ARMS, 0, 1, "cold", points=("jobs=1", "jobs=2"))
    blocks, _, _ = play(plan, lambda step: penalties(0.015 if step.point == "jobs=2" else 0.001)(step))
    alone, _, _ = play(make_plan(ARMS, 0, 1, "cold"), penalties(0.001))
    assert len(alone) == 3 < len(blocks)


def test_the_least_rounds_are_run_whatever_the_default_budget() -> None:
    plan = make_plan(ARMS, 0, 1, "cold", control=False)
    schedule = Schedule(plan, NAMES)
    samples: list[Sample] = []
    for left in (600.0, 100.0, -400.0):
        block = schedule.next(samples, left, 100.0)
        assert isinstance(block, Block)
        samples += [run(step, wobble(0.03)(step)) for step in block.steps]
    end = schedule.next(samples, -900.0, 100.0)
    assert isinstance(end, End) and end.reason == "the budget of 10 min is spent"
    end = Schedule(make_plan(ARMS, 0, 1, "cold", budget=90.0), NAMES).next([], 0.0)
    assert isinstance(end, End) and end.reason == "the budget of 1.5 min is spent"


def test_the_next_round_takes_as_long_as_the_last_one_took_of_the_budget() -> None:
    plan = make_plan(ARMS, 0, 1, "cold", control=False, budget=1000.0)
    for consumed, goes_on in ((400.0, True), (600.0, False)):
        schedule = Schedule(plan, NAMES)
        first = schedule.next([], 1000.0, 1.0)
        assert isinstance(first, Block)
        samples = [run(step, 10.0) for step in first.steps]
        assert isinstance(schedule.next(samples, 1000.0 - consumed, 1.0), Block) == goes_on


def test_a_repetition_that_the_budget_has_no_time_for_does_not_change_why_it_ended() -> None:
    def steal(step: PlanStep) -> float:
        return 5.0 if (step.block, str(step.arm), step.repeats) == (2, "layer:vfs", None) else 0.0

    plan = make_plan(ARMS, 0, 1, "cold")
    _, samples, _ = play(replace(plan, repeats=False), penalties(0.001, vfs=0.1), steal)
    end = Schedule(plan, [str(arm) for arm in plan.arms]).next(samples, 1.0, 100.0)
    assert isinstance(end, End) and end.reason.startswith("decided after 3 rounds")


def test_an_interleaved_round_that_all_arms_share_alike_is_not_run_again() -> None:
    plan = make_plan(ARMS, 3, 1, "cold", control=False, interleave=0.5)

    def rerun(steal: Real) -> list[int]:
        schedule = Schedule(plan, NAMES)
        samples: list[Sample] = []
        numbers = []
        while isinstance(block := schedule.next(samples), Block):
            numbers.append(block.number)
            made = [run(step, wobble(0.01)(step), steal(step)) for step in block.steps]
            samples += [replace(item, digests=((RUN_ORDER, INTERLEAVED),)) for item in made]
        return numbers

    assert rerun(lambda step: 3.0 if step.block == 2 else 0.0) == [1, 2, 3]
    assert rerun(lambda step: 3.0 if (step.block, str(step.arm)) == (2, "layer:vfs") else 0.0) == [1, 2, 3, 4]
