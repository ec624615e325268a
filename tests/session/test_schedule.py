"""The schedule with made-up runs: what is run, in which round, and why it ends."""

import random
from collections.abc import Callable
from dataclasses import replace
from zlib import crc32

import pytest

from kit.analysis.runs.run_table import Runs
from kit.analysis.session.ranking import rank
from kit.model.arm import parse_arms
from kit.model.options import SessionOptions
from kit.model.plan import SEQUENTIAL_ROUNDS, Plan, PlanStep, make_plan
from kit.model.sample import INTERLEAVED, RUN_ORDER, Phase, Sample
from kit.session.plan import schedule
from kit.session.plan.schedule import End, Round, Schedule
from tests.nights import night

ARMS = parse_arms("bare,layer:overlay2,layer:vfs")
NAMES = [str(arm) for arm in ARMS]
Real = Callable[[PlanStep], float]


def run(step: PlanStep, real: float, steal: float = 0.0) -> Sample:
    phase = Phase("build", "ok", real, steal=steal)
    return Sample(
        str(step.arm),
        step.round,
        step.kind,
        "ok",
        0.0,
        (phase,),
        0.004,
        0.004,
        point=step.point,
        rerun_of=step.rerun_of,
    )


def play(plan: Plan, real: Real, steal: Real = lambda step: 0.0) -> tuple[list[Round], list[Sample], End]:
    schedule = Schedule(plan, [str(arm) for arm in plan.arms])
    rounds: list[Round] = []
    samples: list[Sample] = []
    while isinstance(round_ := schedule.next(samples), Round):
        rounds.append(round_)
        samples += [run(step, real(step), steal(step)) for step in round_.steps]
    return rounds, samples, round_


def wobble(share: float) -> Real:
    """Times that differ from round to round by about this share, in an order that is no trend."""

    def real(step: PlanStep) -> float:
        return 10 * (1 + share * (crc32(f"{step.arm} {step.round}".encode()) % 100 - 50) / 50)

    return real


def test_fixed_rounds_after_a_warm_up() -> None:
    rounds, _, end = play(make_plan(ARMS, SessionOptions(rounds=3, seed=1)), wobble(0.1))
    assert [round_.number for round_ in rounds] == [0, 1, 2, 3]
    assert end.reason == "3 rounds, as planned"


def test_precision_goes_on_until_it_is_reached_and_not_longer() -> None:
    rounds, _, end = play(make_plan(ARMS, SessionOptions(rounds=3, seed=1, cache="cold", precision=0.02)), wobble(0.03))
    assert SEQUENTIAL_ROUNDS < len(rounds) < 60
    assert end.reason == "every interval was within ±2% of its ratio one round ago"
    quiet, _, _ = play(make_plan(ARMS, SessionOptions(rounds=3, seed=1, cache="cold", precision=0.02)), wobble(0.001))
    assert len(quiet) == SEQUENTIAL_ROUNDS


def test_settled_arms_drop_out_but_not_their_baseline_or_the_control() -> None:
    def real(step: PlanStep) -> float:
        return wobble(0.05 if str(step.arm) == "layer:vfs" else 0.001)(step)

    rounds, _, _ = play(make_plan(ARMS, SessionOptions(rounds=3, seed=1, cache="cold", precision=0.01)), real)
    last = {str(step.arm) for step in rounds[-1].steps}
    assert last == {"bare", "bare+control", "layer:vfs"}
    assert "layer:vfs not within ±1.0% yet" in rounds[-1].reason


def test_a_rung_stays_as_long_as_the_ladder_needs_it() -> None:
    arms = parse_arms("bare,runtime,bind:overlay2,layer:overlay2,layer:vfs")

    def real(step: PlanStep) -> float:
        return wobble(0.05 if str(step.arm) == "layer:overlay2" else 0.001)(step)

    rounds, _, _ = play(
        make_plan(arms, SessionOptions(rounds=3, seed=1, cache="cold", precision=0.02, control=False)), real
    )
    last = {str(step.arm) for step in rounds[-1].steps}
    assert last == {"bare", "runtime:overlay2", "bind:overlay2", "layer:overlay2"}


def test_nothing_precise_ends_after_the_most_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "MOST_ROUNDS", 20)
    rounds, _, end = play(
        make_plan(ARMS[:2], SessionOptions(rounds=3, seed=1, cache="cold", precision=0.0001)), wobble(0.05)
    )
    assert len(rounds) == 20
    assert end.reason == "20 rounds: the maximum"


def test_no_round_begins_that_the_budget_does_not_last_for() -> None:
    schedule = Schedule(make_plan(ARMS, SessionOptions(rounds=3, seed=1, cache="cold", budget=100.0)), NAMES)
    assert isinstance(schedule.next([], left=100.0, run_seconds=10.0), Round)
    end = Schedule(make_plan(ARMS, SessionOptions(rounds=3, seed=1, cache="cold", budget=100.0)), NAMES).next(
        [], left=29.0, run_seconds=10.0
    )
    assert isinstance(end, End) and end.reason == "the budget is too short for round 1"


def test_a_budget_alone_goes_on_while_it_lasts() -> None:
    schedule = Schedule(make_plan(ARMS, SessionOptions(rounds=1, seed=1, cache="cold", budget=1000.0)), NAMES)
    samples: list[Sample] = []
    for _ in range(5):
        round_ = schedule.next(samples, left=1000.0, run_seconds=1.0)
        assert isinstance(round_, Round)
        samples += [run(step, 1.0) for step in round_.steps]


def test_a_stopped_session_goes_on_where_it_was() -> None:
    plan = make_plan(ARMS, SessionOptions(rounds=3, seed=1, cache="cold", precision=0.02))
    rounds, samples, _ = play(plan, wobble(0.03))
    again = Schedule(plan, [str(arm) for arm in plan.arms])
    kept = samples[: len(samples) // 2]
    round_ = again.next(kept)
    assert isinstance(round_, Round)
    whole = [step for item in rounds for step in item.steps]
    assert round_.steps == tuple(step for step in whole[len(kept) :] if step.round == round_.number)


def test_of_an_interleaved_round_all_is_rerun_or_nothing() -> None:
    plan = make_plan(ARMS, SessionOptions(rounds=2, seed=1, cache="cold", control=False, interleave="0.5s"))
    _, samples, _ = play(plan, wobble(0.01))
    round_ = Schedule(plan, NAMES).next(samples[:-1])
    assert isinstance(round_, Round) and round_.number == 2 and len(round_.steps) == 3
    assert isinstance(Schedule(plan, NAMES).next(samples), End)


def test_a_point_whose_arms_have_run_is_not_rerun() -> None:
    plan = make_plan(
        ARMS,
        SessionOptions(rounds=1, seed=1, cache="cold", control=False, interleave="0.5s"),
        points=("jobs=1", "jobs=2"),
    )
    _, samples, _ = play(plan, wobble(0.01))
    left = next(item for item in samples if item.point == "jobs=2")
    round_ = Schedule(plan, NAMES).next([item for item in samples if item is not left])
    assert isinstance(round_, Round) and [step.point for step in round_.steps] == ["jobs=2"] * 3


def test_disturbed_rounds_are_rerun_with_what_the_arm_is_compared_with() -> None:
    def steal(step: PlanStep) -> float:
        return 5.0 if (step.round, str(step.arm), step.rerun_of) == (2, "layer:vfs", None) else 0.0

    rounds, samples, end = play(make_plan(ARMS, SessionOptions(rounds=3, seed=1)), wobble(0.03), steal)
    again = rounds[-1]
    assert again.number == 4
    assert {str(step.arm) for step in again.steps} == {"bare", "layer:vfs"}
    assert {step.rerun_of for step in again.steps} == {2}
    assert again.reason == "rerun of round 2: layer:vfs steal 50 %"
    assert end.reason == "3 rounds, as planned"
    rest = Schedule(make_plan(ARMS, SessionOptions(rounds=3, seed=1)), NAMES)
    assert isinstance(rest.next(samples), End)  # what was repeated is not repeated again
    rounds, _, _ = play(make_plan(ARMS, SessionOptions(rounds=3, seed=1, rerun=False)), wobble(0.03), steal)
    assert [round_.number for round_ in rounds if round_.number] == [1, 2, 3]


def test_what_would_share_no_round_with_a_rerun_is_rerun_too() -> None:
    def steal(step: PlanStep) -> float:
        return 5.0 if (str(step.arm), step.rerun_of) == ("layer:vfs", None) else 0.0

    rounds, samples, _ = play(make_plan(ARMS, SessionOptions(rounds=1, seed=1)), wobble(0.03), steal)
    assert {str(step.arm) for step in rounds[-1].steps if step.rerun_of} == set(NAMES)
    (ranking,) = rank(Runs(samples), NAMES)
    assert {row.arm for row in ranking.rows} == set(NAMES)
    (ranking,) = rank(Runs(item for item in samples if not (item.arm == "layer:vfs" and item.rerun_of is None)
                           and not (item.arm != "layer:vfs" and item.rerun_of)), NAMES)  # fmt: skip
    assert ranking.unranked == ("layer:vfs",)


def test_each_disturbed_round_is_run_again_once() -> None:
    rounds, _, _ = play(make_plan(ARMS, SessionOptions(rounds=8, seed=1, cache="cold")), wobble(0.03), lambda step: 5.0)
    assert [{step.rerun_of for step in round_.steps} for round_ in rounds[8:]] == [{round_} for round_ in range(1, 9)]


def test_disturbed_rounds_are_run_again_as_long_as_the_budget_lasts() -> None:
    plan = make_plan(ARMS, SessionOptions(rounds=0, seed=1, cache="cold", control=False))
    _, samples, _ = play(replace(plan, rerun=False), penalties(0.001, vfs=0.1), lambda step: 5.0)
    schedule, again, left = Schedule(plan, NAMES), 0, 70.0
    while isinstance(round_ := schedule.next(samples, left, 10.0), Round):
        samples += [run(step, 10.0, 5.0) for step in round_.steps]
        again, left = again + 1, left - 10.0 * len(round_.steps)
    assert again == 2 and round_.reason.startswith("decided after 3 rounds")


def test_an_arm_that_is_hit_by_its_own_doing_is_not_run_again() -> None:
    def steal(step: PlanStep) -> float:
        return 5.0 if str(step.arm) == "layer:vfs" and step.round % 2 else 0.0

    rounds, _, _ = play(make_plan(ARMS, SessionOptions(rounds=10, seed=1, cache="cold")), wobble(0.03), steal)
    assert len(rounds) == 10


def penalties(noise: float = 0.0, **shares: float) -> Real:
    """Times of arms that cost so much more than others, by the last word of their names, and differ by chance."""

    def real(step: PlanStep) -> float:
        chance = random.Random(f"{step.arm} {step.round} {step.point}").gauss(0, noise)
        return 10 * (1 + chance) * (1 + shares.get(str(step.arm).rpartition(":")[2], 0.0))

    return real


def test_a_session_of_open_end_stops_when_each_arm_is_decided() -> None:
    rounds, _, end = play(make_plan(ARMS, SessionOptions(rounds=0, seed=1, cache="cold")), penalties(0.001, vfs=0.1))
    assert [round_.number for round_ in rounds] == [1, 2, 3]
    assert end.reason == (
        "decided after 3 rounds: each arm is significantly different from layer:overlay2 or equivalent within ±3 %"
    )
    rounds, samples, end = play(make_plan(ARMS, SessionOptions(rounds=0, seed=1, cache="cold")), penalties(0.015))
    assert 3 < len(rounds) < 30 and end.reason.startswith(f"decided after {len(rounds)} rounds")
    assert rounds[3].reason == "round 4: layer:vfs undecided"
    rows = rank(Runs(samples), NAMES, rounds=len(rounds))[0].rows
    assert {row.verdict for row in rows if row.pick} == {"reference", "equivalent"}
    tight, _, _ = play(make_plan(ARMS, SessionOptions(rounds=0, seed=1, cache="cold", margin=0.3)), penalties(0.015))
    assert len(tight) == 3


def ran_in(round_: Round) -> set[str]:
    return {str(step.arm) for step in round_.steps}


def test_an_arm_that_is_much_worse_drops_out_as_soon_as_it_has_an_interval() -> None:
    arms = parse_arms("bare,layer:overlay2,layer:vfs,bind:vfs,layer:btrfs@dir")
    rounds, samples, _ = play(
        make_plan(arms, SessionOptions(rounds=0, seed=1, cache="cold", control=False)), penalties(0.01, vfs=1.4)
    )
    assert ran_in(rounds[1]) == {
        str(arm) for arm in make_plan(arms, SessionOptions(rounds=0, seed=1, control=False)).arms
    }
    assert not {"layer:vfs", "bind:vfs"} & ran_in(rounds[2])
    much = "without bind:vfs, layer:vfs: more than 20 % worse than layer:overlay2"
    assert rounds[2].reason == f"round 3: {much}" and much in rounds[3].reason
    ranking = rank(Runs(samples), list(map(str, arms)), rounds=len(rounds))[0]
    assert {row.arm: row.verdict for row in ranking.rows if row.against and row.against.ratio.n == 2} == {
        "layer:vfs": "slower", "bind:vfs": "slower",
    }  # fmt: skip


def test_only_open_comparisons_go_on() -> None:
    """``bind:overlay2`` is decided at once; nobody asks any more what it is compared with, nor what all cost."""
    arms = parse_arms("bare,bind:overlay2,layer:overlay2,layer:vfs")

    def real(step: PlanStep) -> float:
        noise = 0.03 if str(step.arm) == "layer:vfs" else 0.001
        shares = {"bind:overlay2": 0.1, "bare": -0.1, "bare+control": -0.1}
        return penalties(noise)(step) * (1 + shares.get(str(step.arm), 0.0))

    rounds, samples, end = play(make_plan(arms, SessionOptions(rounds=0, seed=1, cache="cold")), real)
    assert len(rounds) > 5 and end.reason.startswith(f"decided after {len(rounds)} rounds")
    assert all(ran_in(round_) == {"layer:overlay2", "layer:vfs"} for round_ in rounds[3:])
    assert rounds[3].reason == "round 4: layer:vfs undecided; without bare, bare+control, bind:overlay2: decided"
    assert {item.arm: len(rounds_of(samples, item.arm)) for item in samples}["bare+control"] == 3


def test_a_noisy_control_and_an_unknown_cost_go_on() -> None:
    rounds, _, _ = play(make_plan(ARMS, SessionOptions(rounds=0, seed=1, cache="cold")), penalties(0.02))
    assert ran_in(rounds[3]) == {"bare", "bare+control", "layer:overlay2", "layer:vfs"}


def test_one_arm_with_bare_is_decided_against_it_and_one_alone_ends_after_three_rounds() -> None:
    rounds, _, end = play(
        make_plan(ARMS[:2], SessionOptions(rounds=0, seed=1, cache="cold")), penalties(0.001, overlay2=0.1)
    )
    assert len(rounds) == 3 and end.reason.startswith("decided after 3 rounds")
    rounds, _, _ = play(make_plan(ARMS[:2], SessionOptions(rounds=0, seed=1, cache="cold")), penalties(0.03))
    assert len(rounds) > 4
    rounds, _, end = play(make_plan(ARMS[:1], SessionOptions(rounds=0, seed=1, cache="cold")), penalties(0.03))
    assert len(rounds) == 3 and end.reason == "3 rounds: one arm, nothing to compare it with"


def test_an_arm_whose_runs_fail_is_not_waited_for() -> None:
    plan = make_plan(ARMS, SessionOptions(rounds=0, seed=1, cache="cold"))
    schedule = Schedule(plan, [str(arm) for arm in plan.arms])
    samples: list[Sample] = []
    while isinstance(round_ := schedule.next(samples), Round):
        made = [run(step, penalties(0.001)(step)) for step in round_.steps]
        samples += [
            replace(item, status="failed") if item.arm == "layer:vfs" and item.round > 1 else item for item in made
        ]
    assert {item.round for item in samples} == {1, 2, 3}


def played(plan: Plan, error: Callable[[PlanStep], str], steal: Real = lambda step: 0.0) -> tuple[list[Sample], End]:
    """Runs of which some fail: with the error that is returned for their step."""
    schedule = Schedule(plan, [str(arm) for arm in plan.arms])
    samples: list[Sample] = []
    while isinstance(round_ := schedule.next(samples), Round):
        for step in round_.steps:
            sample, failure = run(step, wobble(0.01)(step), steal(step)), error(step)
            samples.append(replace(sample, status="failed", error=failure) if failure else sample)
    return samples, round_


def rounds_of(samples: list[Sample], arm: str) -> list[int]:
    return [item.round for item in samples if item.arm == arm]


@pytest.mark.parametrize(("cache", "interleave", "ran"), [("warm", "off", [0, 1]), ("cold", "off", [1, 2]),
                                                          ("warm", "0.5s", [1, 2])])  # fmt: skip
def test_an_arm_that_fails_each_time_in_the_same_way_is_run_twice(cache: str, interleave: str, ran: list[int]) -> None:
    plan = make_plan(ARMS, SessionOptions(rounds=5, seed=1, cache=cache, interleave=interleave, control=False))
    samples, end = played(plan, lambda step: "build failed\n| line" if str(step.arm) == "layer:vfs" else "")
    assert rounds_of(samples, "layer:vfs") == ran and rounds_of(samples, "bare")[-5:] == [1, 2, 3, 4, 5]
    assert end.reason == "5 rounds, as planned"
    session = replace(night(1, 0.0), samples=tuple(samples), not_run=())
    assert schedule.whole_rounds(session, plan) == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    "error", [lambda step: f"reason {step.round}", lambda step: "reason" if step.round == 1 else ""]
)
def test_an_arm_that_fails_in_another_way_or_not_always_is_run_on(error: Callable[[PlanStep], str]) -> None:
    plan = make_plan(ARMS, SessionOptions(rounds=4, seed=1, cache="cold", control=False))
    samples, _ = played(plan, lambda step: error(step) if str(step.arm) == "layer:vfs" else "")
    assert rounds_of(samples, "layer:vfs") == [1, 2, 3, 4]


def test_a_point_at_which_an_arm_fails_does_not_end_it_at_others() -> None:
    plan = make_plan(ARMS, SessionOptions(rounds=4, seed=1, cache="cold", control=False), points=("jobs=1", "jobs=2"))
    samples, _ = played(plan, lambda step: "reason" if (str(step.arm), step.point) == ("bare", "jobs=2") else "")
    runs = [(item.point, item.round) for item in samples if item.arm == "bare"]
    assert sorted(runs) == [*(("jobs=1", number) for number in range(1, 5)), ("jobs=2", 1), ("jobs=2", 2)]


def test_no_failed_run_is_repeated_because_others_were_disturbed() -> None:
    def hit(step: PlanStep) -> float:
        return 5.0 if step.round == 2 and str(step.arm) == "bare" and step.rerun_of is None else 0.0

    plan = make_plan(ARMS, SessionOptions(rounds=3, seed=1, cache="cold", control=False))
    samples, _ = played(plan, lambda step: "reason" if str(step.arm) == "layer:vfs" else "", hit)
    reruns = {item.arm for item in samples if item.rerun_of is not None}
    assert reruns == {"bare", "layer:overlay2"}


def test_where_every_arm_fails_nothing_is_left_to_run() -> None:
    plan = make_plan(ARMS, SessionOptions(rounds=4, seed=1, cache="cold", control=False))
    samples, end = played(plan, lambda step: "reason")
    assert len(samples) == 2 * len(ARMS) and end.reason == "every arm failed"


def test_machines_that_share_rounds_run_all_arms_in_each() -> None:
    plan = replace(
        make_plan(ARMS, SessionOptions(rounds=4, seed=1, cache="cold", control=False)), assigned=(1, 2, 3, 4)
    )
    samples, _ = played(plan, lambda step: "reason" if str(step.arm) == "layer:vfs" else "")
    assert rounds_of(samples, "layer:vfs") == [1, 2, 3, 4]


def test_every_point_must_be_decided() -> None:
    plan = make_plan(ARMS, SessionOptions(rounds=0, seed=1, cache="cold"), points=("jobs=1", "jobs=2"))
    rounds, _, _ = play(plan, lambda step: penalties(0.015 if step.point == "jobs=2" else 0.001)(step))
    alone, _, _ = play(make_plan(ARMS, SessionOptions(rounds=0, seed=1, cache="cold")), penalties(0.001))
    assert len(alone) == 3 < len(rounds)


def test_the_least_rounds_are_run_whatever_the_default_budget() -> None:
    plan = make_plan(ARMS, SessionOptions(rounds=0, seed=1, cache="cold", control=False))
    schedule = Schedule(plan, NAMES)
    samples: list[Sample] = []
    for left in (600.0, 100.0, -400.0):
        round_ = schedule.next(samples, left, 100.0)
        assert isinstance(round_, Round)
        samples += [run(step, wobble(0.03)(step)) for step in round_.steps]
    end = schedule.next(samples, -900.0, 100.0)
    assert isinstance(end, End) and end.reason == "the budget of 10 min is spent"
    end = Schedule(make_plan(ARMS, SessionOptions(rounds=0, seed=1, cache="cold", budget=90.0)), NAMES).next([], 0.0)
    assert isinstance(end, End) and end.reason == "the budget of 1 min 30 s is spent"


def test_the_next_round_takes_as_long_as_the_last_one_took_of_the_budget() -> None:
    plan = make_plan(ARMS, SessionOptions(rounds=0, seed=1, cache="cold", control=False, budget=1000.0))
    for consumed, goes_on in ((400.0, True), (600.0, False)):
        schedule = Schedule(plan, NAMES)
        first = schedule.next([], 1000.0, 1.0)
        assert isinstance(first, Round)
        samples = [run(step, 10.0) for step in first.steps]
        assert isinstance(schedule.next(samples, 1000.0 - consumed, 1.0), Round) == goes_on


def test_a_repetition_that_the_budget_has_no_time_for_does_not_change_why_it_ended() -> None:
    def steal(step: PlanStep) -> float:
        return 5.0 if (step.round, str(step.arm), step.rerun_of) == (2, "layer:vfs", None) else 0.0

    plan = make_plan(ARMS, SessionOptions(rounds=0, seed=1, cache="cold"))
    _, samples, _ = play(replace(plan, rerun=False), penalties(0.001, vfs=0.1), steal)
    end = Schedule(plan, [str(arm) for arm in plan.arms]).next(samples, 1.0, 100.0)
    assert isinstance(end, End) and end.reason.startswith("decided after 3 rounds")


def test_an_interleaved_round_whose_disturbance_all_arms_share_is_not_rerun() -> None:
    plan = make_plan(ARMS, SessionOptions(rounds=3, seed=1, cache="cold", control=False, interleave="0.5s"))

    def rerun(steal: Real) -> list[int]:
        schedule = Schedule(plan, NAMES)
        samples: list[Sample] = []
        numbers = []
        while isinstance(round_ := schedule.next(samples), Round):
            numbers.append(round_.number)
            made = [run(step, wobble(0.01)(step), steal(step)) for step in round_.steps]
            samples += [replace(item, digests=((RUN_ORDER, INTERLEAVED),)) for item in made]
        return numbers

    assert rerun(lambda step: 3.0 if step.round == 2 else 0.0) == [1, 2, 3]
    assert rerun(lambda step: 3.0 if (step.round, str(step.arm)) == (2, "layer:vfs") else 0.0) == [1, 2, 3, 4]
