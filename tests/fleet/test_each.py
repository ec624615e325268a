"""A session on each machine: one that is lost goes on where it was, when its machine is back."""

from dataclasses import replace

import pytest

from kit.fleet.each import EachCourse
from kit.model.arm import parse_arm
from kit.model.plan import PlanStep
from kit.model.sample import Sample
from kit.model.session import DONE, FAILED, INTERRUPTED, Session
from kit.report.progress import Lines, Quiet
from kit.session.guest_protocol import Done, Extended, Failed, Finished, Measured, Planned
from tests.fleet.machines import FIRST, ONE, SECOND, TWO, sample


class Kept:
    def __init__(self) -> None:
        self.blocks: list[int] = []
        self.status = ""

    def set_status(self, session_id: str, status: str) -> None:
        self.status = status

    def update(self, session: Session) -> None:
        return None

    def add_sample(self, session_id: str, *samples: Sample) -> None:
        self.blocks += [sample.block for sample in samples]

    def set_flags(self, session_id: str, arm: str, point: str, block: int, flags: str) -> None:
        return None


def test_a_lost_machine_is_given_its_own_session_again_and_nothing_is_counted_twice() -> None:
    kept = {"one": Kept(), "two": Kept()}
    each = EachCourse({"one": FIRST, "two": SECOND}, kept, Quiet())
    assert [(member.name, share.session.id, share.blocks) for member, share in each.deal([ONE, TWO])] == [
        ("one", FIRST.id, ()),
        ("two", SECOND.id, ()),
    ]
    each.hear(ONE, Measured(sample(1)))
    each.end(ONE, None)
    assert each.deal([replace(ONE, name="three")]) == []
    assert [share.session.id for _, share in each.deal([ONE])] == [FIRST.id]
    for block in (1, 2):  # what it has already it says first
        each.hear(ONE, Measured(sample(block)))
    each.end(ONE, Done(replace(FIRST, status=DONE)))
    assert kept["one"].blocks == [1, 2] and not each.done
    assert (kept["one"].status, kept["two"].status) == (DONE, "")  # at once: it counts while the other goes on
    each.end(TWO, Failed("RunError", "broke", ""))
    assert each.done
    found = each.results()
    assert (found["one"].status, len(found["one"].samples), found["two"].status) == (DONE, 2, FAILED)


def test_who_does_not_come_back_is_interrupted() -> None:
    each = EachCourse({"one": FIRST}, {"one": Kept()}, Quiet())
    each.deal([ONE])
    each.end(ONE, None)
    each.give_up()
    assert each.done and each.results()["one"].status == INTERRUPTED


def test_more_runs_of_one_machine_are_more_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Both have made their one run, and each makes two more."""
    lines = Lines()
    lines.planned(2, 0)
    each = EachCourse({"one": FIRST, "two": SECOND}, {"one": Kept(), "two": Kept()}, lines)
    each.deal([ONE, TWO])
    step = PlanStep(1, parse_arm("bare"), "measured")
    for message in (Planned(1, 0), Measured(sample(1)), Finished(step), Extended(2, "once more")):
        for member in (ONE, TWO):
            each.hear(member, message)
    each.hear(ONE, Finished(step))
    assert "one: [3/6]" in capsys.readouterr().err


class Plans(Quiet):
    def __init__(self) -> None:
        super().__init__()
        self.plans: list[tuple[int, int]] = []

    def planned(self, steps: int, done: int) -> None:
        self.plans.append((steps, done))


def test_what_is_left_is_counted_anew_where_a_machine_begins_again() -> None:
    plans = Plans()
    each = EachCourse({"one": FIRST, "two": SECOND}, {"one": Kept(), "two": Kept()}, plans)
    each.deal([ONE, TWO])
    for member in (ONE, TWO):
        each.hear(member, Planned(8, 0))
    each.end(ONE, None)
    each.deal([ONE])
    for block in (1, 2, 3):  # made while it was cut off
        each.hear(ONE, Measured(sample(block)))
    each.hear(ONE, Planned(5, 3))
    assert plans.plans == [(5 + 8, 3)]
