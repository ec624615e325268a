"""A session on each machine: one that is lost goes on where it was, when its machine is back."""

from dataclasses import replace

import pytest

from kit.core.codec import UnreadableError
from kit.extra.fleet.client.each import EachCourse
from kit.model.event import Event, EventSink, FactsKnown, RunsAdded, RunsPlanned, SampleTaken, StatusChanged
from kit.model.session import DONE, FAILED, INTERRUPTED
from kit.report.text.progress import Lines, Quiet
from kit.session.wire.messages import Done, Failed
from tests.extra.fleet.machines import FIRST, ONE, SECOND, TWO, sample


class Kept(EventSink):
    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.status = ""

    def take(self, event: Event) -> None:
        match event:
            case StatusChanged():
                self.status = event.status
            case SampleTaken():
                self.rounds.append(event.sample.round)


def test_a_lost_machine_is_given_its_own_session_again_and_nothing_is_counted_twice() -> None:
    kept = {"one": Kept(), "two": Kept()}
    each = EachCourse({"one": FIRST, "two": SECOND}, kept, Quiet())
    assert [(member.name, share.session.id, share.assigned) for member, share in each.assign([ONE, TWO])] == [
        ("one", FIRST.id, ()),
        ("two", SECOND.id, ()),
    ]
    each.on_event(ONE, SampleTaken(sample(1)))
    each.end(ONE, None)
    assert each.assign([replace(ONE, name="three")]) == []
    assert [share.session.id for _, share in each.assign([ONE])] == [FIRST.id]
    for round_ in (1, 2):  # what it has already it says first
        each.on_event(ONE, SampleTaken(sample(round_), earlier=True))
    each.end(ONE, Done.by(replace(FIRST, status=DONE)))
    assert kept["one"].rounds == [1, 2] and not each.done
    assert (kept["one"].status, kept["two"].status) == (DONE, "")  # at once: it counts while the other goes on
    each.end(TWO, Failed("RunError", "broke", ""))
    assert each.done
    found = each.results()
    assert (found["one"].status, len(found["one"].samples), found["two"].status) == (DONE, 2, FAILED)


def test_who_does_not_come_back_is_interrupted() -> None:
    each = EachCourse({"one": FIRST}, {"one": Kept()}, Quiet())
    each.assign([ONE])
    each.end(ONE, None)
    each.give_up()
    assert each.done and each.results()["one"].status == INTERRUPTED


def test_more_runs_of_one_machine_are_more_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Both have made their one run, and each makes two more."""
    lines = Lines()
    lines.take(RunsPlanned(2, 0))
    each = EachCourse({"one": FIRST, "two": SECOND}, {"one": Kept(), "two": Kept()}, lines)
    each.assign([ONE, TWO])
    for message in (RunsPlanned(1, 0), SampleTaken(sample(1)), RunsAdded(2, "once more")):
        for member in (ONE, TWO):
            each.on_event(member, message)
    each.on_event(ONE, SampleTaken(sample(2)))
    assert "one: [3/6]" in capsys.readouterr().err


class Plans(Quiet):
    def __init__(self) -> None:
        super().__init__()
        self.plans: list[tuple[int, int]] = []

    def take(self, event: Event) -> None:
        if isinstance(event, RunsPlanned):
            self.plans.append((event.runs, event.done))


def test_what_is_left_is_counted_again_where_a_machine_begins_again() -> None:
    plans = Plans()
    each = EachCourse({"one": FIRST, "two": SECOND}, {"one": Kept(), "two": Kept()}, plans)
    each.assign([ONE, TWO])
    for member in (ONE, TWO):
        each.on_event(member, RunsPlanned(8, 0))
    each.end(ONE, None)
    each.assign([ONE])
    for round_ in (1, 2, 3):  # made while it was cut off
        each.on_event(ONE, SampleTaken(sample(round_), earlier=True))
    each.on_event(ONE, RunsPlanned(5, 3))
    assert plans.plans == [(5 + 8, 3)]


def test_a_machine_is_believed_its_own_runs_alone_in_whichever_order_it_says_them() -> None:
    kept = {"one": Kept()}
    each = EachCourse({"one": FIRST}, kept, Quiet())
    each.assign([ONE])
    for odd in (replace(sample(1), arm="layer:overlay2"), replace(sample(1), point="x=1")):
        with pytest.raises(UnreadableError, match="one broke the protocol"):
            each.on_event(ONE, SampleTaken(odd))
    with pytest.raises(UnreadableError, match="its facts are too many"):
        each.on_event(ONE, FactsKnown.of(replace(FIRST, facts={str(number): "" for number in range(1_001)})))
    with pytest.raises(UnreadableError, match="ended as 'running'"):
        each.end(ONE, Done.by(FIRST))
    assert not kept["one"].rounds and not each.done
