"""Which rounds other programs disturbed, and how much CPU they used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.analysis.runs.disturbance import BusyRounds, busy_rounds
from kit.analysis.session.analyse import analyse
from kit.model.fact import BUSY_BEFORE, CPU, NO_OUTSIDE_CPU, ROUNDS_OF, stored
from kit.model.sample import INTERLEAVED, RUN_ORDER, Phase, Sample
from kit.model.session import Request, Session
from kit.report import render
from kit.report.text.answer import COLUMNS, LINES, answer
from kit.report.text.caveats import busy_notes

ARMS = {"bare": 0.02, "layer:overlay2": 0.05, "layer:fuse-overlayfs": 0.4}
FACTS = (CPU.fact("a CPU, 2 cores, microcode 1"),)


def session(others: dict[int, float | None], order: str = "", rounds: int = 4) -> Session:
    """``others``: CPUs that other programs use in a round; None where outside CPU is unknown."""
    digests = ((RUN_ORDER, order),) if order else ()
    samples = []
    for round_ in range(1, rounds + 1):
        for arm, usual in ARMS.items():
            more = others.get(round_, 0.0)
            real = 10.0 + round_ / 100 + len(arm) / 10
            outside = None if more is None else real * (usual + more)
            phase = Phase("build", "ok", real=real, user=12.0, sys=1.0, outside=outside, flush=0.1)
            samples.append(Sample(arm, round_, "measured", "ok", 0.0, (phase,), digests=digests))
    arms = tuple(ARMS)
    return Session(
        "x", 0.0, "0", "mine", "done", Request(), arms, tuple((arm, "bare") for arm in arms[1:]), 1,
        stored(FACTS), samples=tuple(samples),
    )  # fmt: skip


def said(made: Session) -> list[str]:
    return list(busy_notes(made, analyse(made)))


@pytest.mark.parametrize("order", ["", INTERLEAVED])
def test_busy_rounds_are_found_by_outside_cpu_over_the_arms_usual(order: str) -> None:
    made = session({1: 0.4, 3: 0.38, 4: 0.36}, order)
    (found,) = busy_rounds(made)
    assert (found.rounds, found.cpus, found.before) == ((1, 3, 4), 2, False)
    assert found.used == pytest.approx(0.38)
    assert said(made) == ["The machine was busy: other programs used 0.38 of 2 CPUs in rounds 1, 3 and 4."]


def test_a_quiet_machine_has_no_line_though_arms_have_outside_cpu_of_their_own() -> None:
    assert busy_rounds(session({2: 0.05})) == () and said(session({})) == []
    unknown = session({2: 0.9, 3: 0.9})
    assert (
        "in rounds 2 and 3." in said(replace(unknown, facts={}))[0]
        and "of 2" not in said(replace(unknown, facts={}))[0]
    )


def test_rounds_that_began_on_a_busy_machine_have_what_it_used_before() -> None:
    made = session({1: None, 2: 0.5, 3: None})
    lacking = NO_OUTSIDE_CPU.fact("other programs use 1.99 of 2 CPUs")
    noted = (BUSY_BEFORE.fact("1.99 of 2 CPUs", "1"), BUSY_BEFORE.fact("1.79 of 2 CPUs", "3"))
    now = replace(made, facts=stored((*FACTS, lacking, *noted)))
    assert said(now) == [
        "The machine was busy: other programs used 0.50 of 2 CPUs in round 2 and 1.89 of 2 CPUs before rounds 1 and 3."
    ]
    older = replace(made, facts=stored((*FACTS, lacking)))
    assert said(older)[1] == f"Outside CPU is unknown in rounds 1 and 3: {lacking.text}."
    assert "left out" not in render("full", older)  # said once
    noted_later = render("full", now)
    assert f"note: outside CPU is left out in rounds 1 and 3: {lacking.text}" in noted_later
    assert busy_rounds(older)[1] == BusyRounds("", (1, 3), None, 2, True)


def test_each_machine_of_a_session_is_reported_by_itself() -> None:
    made = session({1: 0.5, 2: 0.7}, rounds=8)
    machines = (ROUNDS_OF.fact("1, 3, 5, 7", "b01"), ROUNDS_OF.fact("2, 4, 6, 8", "b02"))
    assert said(replace(made, facts=stored((*FACTS, *machines)))) == [
        "Machine b01 was busy: other programs used 0.50 of 2 CPUs in round 1.",
        "Machine b02 was busy: other programs used 0.70 of 2 CPUs in round 2.",
    ]


def test_the_first_screen_says_so_right_below_the_head_and_full_as_well() -> None:
    made = session({1: 0.4, 3: 0.38, 4: 0.36})
    lines = answer(made, analyse(made)).splitlines()
    assert lines[1] == "The machine was busy: other programs used 0.38 of 2 CPUs in rounds 1, 3 and 4."
    assert len(lines) <= LINES and max(map(len, lines)) <= COLUMNS
    assert "note: The machine was busy: other programs used 0.38 of 2 CPUs" in render("full", made)
    assert '"busy": [' in render("json", made)


def test_many_rounds_are_named_by_the_first_and_the_last() -> None:
    usual = session(dict.fromkeys(range(3, 7), 0.4), rounds=12)
    assert said(usual)[0].endswith("in rounds 3 to 6.")
    every_second = session(dict.fromkeys(range(1, 20, 2), 0.4), rounds=30)
    assert said(every_second)[0].endswith("in 10 rounds.")
