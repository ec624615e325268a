"""Tests of the estimate that a user sees before a session begins."""

import pytest

from kit.model.arm import parse_arms
from kit.model.duration import after_pilot, estimate, how_long, round_seconds
from kit.model.options import SessionOptions
from kit.model.plan import make_plan
from kit.model.sample import Sample
from kit.model.session import DONE, NotRun, Request, Session


def rounds(*starts: float, kind: str = "measured") -> list[Sample]:
    arms = ("bare", "runtime", "layer:overlay2")
    return [
        Sample(arm, round_, kind, "ok", start + i, ())
        for round_, start in enumerate(starts, 1)
        for i, arm in enumerate(arms)
    ]


def test_a_round_takes_what_lies_between_two_starts_but_for_pauses() -> None:
    assert round_seconds(rounds(100, 140, 180, 220)) == pytest.approx(40)
    assert round_seconds(rounds(100, 140, 180, 90_000, 90_040)) == 40
    assert round_seconds(rounds(100)) is None


def test_warm_up_and_traced_runs_are_no_rounds() -> None:
    assert round_seconds([*rounds(100, 140, 180), *rounds(300, 400, kind="traced")]) == 40
    assert round_seconds([*rounds(10, kind="warmup"), *rounds(100, 140)]) == 40


def test_the_sentence_says_when_it_ends() -> None:
    arms = parse_arms("bare,layer:overlay2")
    assert how_long(make_plan(arms, SessionOptions(rounds=5, seed=1, control=False)), 72, 2) == (
        "5 rounds of 2 arms: about 6 min, by the last session of this kind"
    )
    assert "duration unknown: no comparable session yet" in how_long(
        make_plan(arms, SessionOptions(rounds=1, seed=1)), None, 2
    )
    assert how_long(make_plan(arms, SessionOptions(rounds=2, seed=1, budget=3600)), 5, 2).startswith(
        "at least 2 rounds of 2 arms, 1 h at most"
    )
    assert how_long(make_plan(arms, SessionOptions(rounds=0, seed=1)), 60, 2) == (
        "at least 3 rounds of 2 arms; stops when each arm is decided, or after 10 min (--budget); "
        "a round took 1 min the last time"
    )
    assert (
        how_long(make_plan(arms, SessionOptions(rounds=0, seed=1, budget=1800)), None, 2)
        == "stops when each arm is decided, or after 30 min"
    )


def test_the_last_session_says_how_long_a_round_takes_and_which_arms_run() -> None:
    plan = make_plan(parse_arms("bare,layer:overlay2"), SessionOptions(rounds=5, seed=1, control=False))
    assert estimate(plan, None).startswith("5 rounds of 2 arms; duration unknown")
    last = Session(
        "x", 1.0, "0", "t", DONE, Request(), (), (), 1, not_run=(NotRun("layer:overlay2", "no root", "be root"),),
        samples=tuple(rounds(100, 140, 180)),
    )  # fmt: skip
    assert estimate(plan, last) == "5 rounds of 1 arms: about 3 min 20 s, by the last session of this kind"


def test_after_the_pilot_a_user_knows_how_long_the_least_rounds_take() -> None:
    arms = parse_arms("bare,layer:overlay2")
    assert after_pilot(make_plan(arms, SessionOptions(rounds=5, seed=1, control=False)), 72.4, False) == (
        "a run takes about 1 min 12 s: 5 rounds of 2 runs take about 12 min"
    )
    assert after_pilot(make_plan(arms, SessionOptions(rounds=0, seed=1)), 30, False).endswith(
        "3 rounds of 3 runs take about 4 min 30 s"
    )
    slow = after_pilot(make_plan(arms, SessionOptions(rounds=0, seed=1)), 120, True)
    assert slow.startswith(
        "a run takes at least 2 min: 3 rounds of 3 runs take at least 18 min, more than the 10 min of"
    )
    assert "shorter: fewer --arms" in slow
    assert "needs a longer --budget" in after_pilot(
        make_plan(arms, SessionOptions(rounds=0, seed=1, budget=60)), 30, False
    )
