"""What a user is told before a session begins."""

import pytest

from kit.model.arm import parse_arms
from kit.model.estimate import how_long, run_seconds
from kit.model.plan import make_plan
from kit.model.sample import Sample


def runs(*starts: float) -> list[Sample]:
    return [Sample("bare", i, "measured", "ok", start, ()) for i, start in enumerate(starts)]


def test_a_run_takes_what_lies_between_two_starts_but_for_pauses() -> None:
    assert run_seconds(runs(100, 110, 120, 132)) == 32 / 3
    assert run_seconds(runs(100, 110, 120, 90_000, 90_010)) == 10
    assert run_seconds(runs(100)) is None


def by_turns(*starts: float) -> list[Sample]:
    digests = (("slices", "0.5 s"),)
    return [
        Sample(arm, block, "measured", "ok", start + i / 1000, (), digests=digests)
        for block, start in enumerate(starts)
        for i, arm in enumerate(("bare", "runtime", "layer:overlay2", "layer:vfs"))
    ]


def test_of_arms_by_turns_each_takes_its_share_of_a_block() -> None:
    assert run_seconds(by_turns(100, 140, 180, 90_000), 0.5) == pytest.approx(10)
    assert run_seconds(by_turns(100, 140), 0.2) is None
    assert run_seconds(by_turns(100, 140)) is None
    assert run_seconds(runs(100, 110, 120), 0.5) is None


def test_traced_runs_tell_nothing_of_others() -> None:
    traced = [Sample("bare", 1, "traced", "ok", start, ()) for start in (150.0, 200.0)]
    assert run_seconds([*runs(100, 110, 120), *traced]) == 10


def test_the_sentence_counts_runs_and_minutes() -> None:
    plan = make_plan(parse_arms("bare,layer:overlay2"), 5, 1, control=False)
    assert how_long(plan, 30) == "5 rounds of 2 arms, 12 runs: about 6 minutes, by the last session of this kind"
    assert how_long(plan, 30, ["layer:overlay2"]).startswith("5 rounds of 1 arms, 6 runs: about 3 minutes")
    assert "the first round will tell" in how_long(plan, None)
    cold = make_plan(parse_arms("bare,layer:overlay2"), 1, 1, "cold", control=False)
    assert how_long(cold, 5).startswith("1 round of 2 arms, 2 runs: about 10 seconds")
    assert "60 minutes at most" in how_long(make_plan(parse_arms("bare"), 2, 1, budget=3600), 5)
