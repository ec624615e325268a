"""One session's rounds on several machines: which machine made which, and an interval that rests on machines."""

import random
from dataclasses import replace

import pytest

from kit.analysis.session.analyse import analyse, whole_real
from kit.core.errors import UsageError
from kit.extra.fleet.analysis.split_session import answer_split
from kit.model.fact import MACHINE_OF, makers, stored
from kit.report.text.answer import render_answer
from tests.shared_night import PENALTIES, shared


def test_who_made_which_round() -> None:
    assert makers(shared(4).facts) == {1: "two", 2: "three", 3: "four", 4: "one"}


def test_a_machine_that_was_given_rounds_and_made_none_is_none_of_the_answer() -> None:
    """As it is stored where the session was broken off."""
    session = shared(4)
    begun = replace(session, samples=tuple(item for item in session.samples if item.round in (1, 2)))
    assert answer_split(begun).machines == 2
    assert "The rounds ran on 2 machines" in " ".join(render_answer(begun, analyse(begun)).split())


def test_workers_of_one_machine_count_as_one() -> None:
    session = shared()
    ids = stored(MACHINE_OF.fact("m" if name in ("one", "two") else name, name) for name in PENALTIES)
    fleet = answer_split(replace(session, facts={**session.facts, **ids}))
    (arm,) = fleet.arms
    assert fleet.machines == 3 and fleet.shared_machine == ("one", "two")
    assert [(item.machine, item.ratio.n) for item in arm.whole.machines] == [("four", 4), ("one, two", 8), ("three", 4)]


def test_two_workers_of_one_machine_are_no_fleet() -> None:
    session = shared()
    ids = stored(MACHINE_OF.fact("m", name) for name in PENALTIES)
    alone = replace(session, facts={**session.facts, **ids})
    said = " ".join(render_answer(alone, analyse(alone)).split())
    assert "The rounds ran on 1 machine, by the workers four, one, three, two: these figures describe that" in said
    assert answer_split(alone).machines == 1 and answer_split(alone).arms[0].whole.ratio is None


def test_the_interval_rests_on_machines() -> None:
    session = shared()
    fleet = answer_split(session)
    (arm,) = fleet.arms
    assert fleet.machines == 4 and [item.machine for item in arm.whole.machines] == sorted(PENALTIES)
    assert [item.ratio.n for item in arm.whole.machines] == [4] * 4
    (alone,) = whole_real(analyse(session).comparisons)
    ratio = arm.whole.ratio
    assert ratio and ratio.low and ratio.high and alone.low and alone.high
    assert ratio.low < alone.low and ratio.high > alone.high
    assert arm.whole.spread and arm.whole.spread.low > 0.02


def test_a_rerun_round_is_of_the_machine_that_ran_it() -> None:
    session = shared()
    dice = random.Random(1)
    again = tuple(
        replace(item, round=20, rerun_of=1, started=dice.random()) for item in session.samples if item.round == 1
    )
    flagged = tuple(replace(item, flags="steal") if item.round == 1 else item for item in session.samples)
    (arm,) = answer_split(replace(session, samples=(*flagged, *again))).arms
    assert [item.ratio.n for item in arm.whole.machines] == [4] * 4


def test_the_sessions_own_answer_says_that_it_is_of_these_machines_alone() -> None:
    session = shared()
    assert "The rounds ran on 4 machines" in " ".join(render_answer(session, analyse(session)).split())


def test_a_phase_is_named_where_there_is_one() -> None:
    session = shared()
    (arm,) = answer_split(session, phase="clean").arms
    assert arm.phase == "clean" and answer_split(session).arms[0].phase == "total"
    with pytest.raises(UsageError, match="no phase 'link'"):
        answer_split(session, phase="link")
