"""One session on several machines: rounds count whole or not at all, and once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from kit.core.errors import KitError, UsageError
from kit.extra.fleet.client import split
from kit.extra.fleet.client.merge import check_digests, merged_facts
from kit.extra.fleet.client.split import SplitCourse
from kit.extra.fleet.share import local_session
from kit.model.arm import parse_arm, parse_arms
from kit.model.event import Event, FactsKnown, PhaseStarted, RunFlagged, RunsPlanned, SampleTaken, Told
from kit.model.fact import makers
from kit.model.machine import Member
from kit.model.options import SessionOptions
from kit.model.plan import PlanStep, make_plan
from kit.model.sample import RUN_ORDER, Phase, Sample
from kit.model.session import DONE, FAILED, RUNNING, NotRun, Request, Session, check_session_id
from kit.report.text.progress import Quiet
from kit.session.plan.interleave_policy import ordered_as
from kit.session.wire.messages import Done, Failed

ARMS = ("bare", "layer:overlay2")
SESSION = Session(
    id="20260101-000000-aaaa", created=1e9, kit_version="0", title="true", status=RUNNING,
    request=Request(command=("true",), arms=ARMS, rounds=4, interleave="off"), arms=ARMS,
    baselines=((ARMS[1], ARMS[0]),), seed=1,
    plan=make_plan(parse_arms(",".join(ARMS)), SessionOptions(rounds=4, seed=1, control=False)),
)  # fmt: skip
ONE = Member(
    name="one", kind="x", kit_version="0", probe="p", kernel="6", cpu="c", cores=1, memory=1, virtualization="none",
    root=True, machine="m",
)  # fmt: skip
TWO, THREE = replace(ONE, name="two", machine="n"), replace(ONE, name="three", machine="o")


@dataclass
class Kept:
    """Collects the events that the client's store gets."""

    samples: list[Sample] = field(default_factory=list)
    together: list[list[tuple[int, str]]] = field(default_factory=list)  # runs that it was given at once
    flags: list[tuple[str, int]] = field(default_factory=list)
    facts: Mapping[str, str] = field(default_factory=dict)
    updates: int = 0

    def take(self, *events: Event) -> None:
        for event in events:
            match event:
                case FactsKnown():
                    self.facts = event.facts
                    self.updates += 1
                case SampleTaken():
                    self.samples.append(event.sample)
                case RunFlagged():
                    self.flags.append((event.arm, event.round))
        taken = [(event.sample.round, event.sample.arm) for event in events if isinstance(event, SampleTaken)]
        self.together += [taken] if taken else []

    def session(self) -> Session:
        """As the store has it when the client is killed."""
        return replace(SESSION, facts=self.facts, samples=tuple(self.samples))

    def rounds(self) -> list[tuple[int, str]]:
        return sorted((item.round, item.arm) for item in self.samples)


class Shown(Quiet):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.plans: list[tuple[int, int]] = []

    def take(self, event: Event) -> None:
        match event:
            case Told():
                self.told.append(event.text)
            case RunsPlanned():
                self.plans.append((event.runs, event.done))


def course(kept: Kept, *members: Member, session: Session = SESSION) -> SplitCourse:
    return SplitCourse(session, session.kept_plan(), members, kept, Quiet())


def sample(round_: int, arm: str, image: str = "i") -> Sample:
    phase = Phase(name="run", status="ok", real=1.0)
    return Sample(arm, round_, "measured", "ok", 1e9 + round_, (phase,), log="/log", digests=(("image", image),))


def measure(split: SplitCourse, member: Member, *rounds: int, arms: tuple[str, ...] = ARMS, image: str = "i") -> None:
    split.on_event(member, FactsKnown.of(replace(SESSION, facts={"kernel": "6"})))
    for round_ in rounds:
        for arm in arms:
            split.on_event(member, SampleTaken(sample(round_, arm, image)))


ALL = [(round_, arm) for round_ in (1, 2, 3, 4) for arm in ARMS]


def test_a_part_is_known_by_the_session_that_its_user_knows() -> None:
    shares = [share for _, share in course(Kept(), ONE, TWO).assign([ONE, TWO])]
    assert {share.name for share in shares} == {f"{SESSION.title} {SESSION.id}"}
    assert len({share.session.id for share in shares} | {SESSION.id}) == 3


def test_machines_alternate() -> None:
    kept = Kept()
    split = course(kept, ONE, TWO)
    assert [(member.name, share.assigned) for member, share in split.assign([ONE, TWO, THREE])] == [
        ("one", (1, 3)),
        ("two", (2, 4)),
    ]
    measure(split, ONE, 1, 3)
    measure(split, TWO, 2, 4)
    assert not split.done
    split.end(ONE, Done.by(SESSION))
    split.end(TWO, Done.by(SESSION))
    assert split.done and kept.rounds() == ALL
    assert split.result().status == DONE and makers(kept.facts) == {1: "one", 3: "one", 2: "two", 4: "two"}
    assert kept.samples[0].log == "one:/log"
    assert sorted(map(sorted, kept.together)) == [[(round_, arm) for arm in ARMS] for round_ in (1, 2, 3, 4)]


def test_what_a_lost_machine_had_not_finished_is_anothers_and_what_it_had_counts_once() -> None:
    kept = Kept()
    split = course(kept, ONE, TWO)
    split.assign([ONE, TWO])
    measure(split, ONE, 1)
    measure(split, ONE, 3, arms=ARMS[:1])
    split.end(ONE, None)
    assert kept.rounds() == ALL[:2]
    assert [(member.name, share.assigned) for member, share in split.assign([THREE])] == [("three", (3,))]
    measure(split, THREE, 1, 3)  # round 1 is not its own: it is another's already
    split.end(THREE, Done.by(SESSION))
    measure(split, TWO, 2, 4)
    measure(split, TWO, 2, 4)
    split.end(TWO, Done.by(SESSION))
    assert split.done and kept.rounds() == ALL
    assert makers(kept.facts) == {1: "one", 2: "two", 3: "three", 4: "two"}


def test_a_session_goes_on_with_the_rounds_that_it_lacks() -> None:
    kept = Kept()
    split = course(kept, ONE)
    split.assign([ONE])
    measure(split, ONE, 2)
    begun = split.session
    again = course(kept, TWO, session=begun)
    assert [share.assigned for _, share in again.assign([TWO])] == [(1, 3, 4)]


def test_who_is_killed_has_lost_no_round_and_no_half_round_counts() -> None:
    """Facts are not written at each round: the store knows of each run whose it is before it has it."""
    kept = Kept()
    split = course(kept, ONE, TWO)
    split.assign([ONE, TWO])
    measure(split, ONE, 1)
    measure(split, TWO, 2)
    kept.take(SampleTaken(sample(4, ARMS[0])))  # between two runs of a round
    again = Kept()
    resumed = course(again, THREE, session=kept.session())
    assert [share.assigned for _, share in resumed.assign([THREE])] == [(3, 4)]
    measure(resumed, THREE, 3, 4)
    resumed.end(THREE, Done.by(SESSION))
    assert makers(again.facts) == {1: "one", 2: "two", 3: "three", 4: "three"}
    found = resumed.result().samples
    assert sorted((item.round, item.arm) for item in found) == ALL


def test_what_was_given_and_not_made_is_no_machines_in_the_end() -> None:
    kept = Kept()
    split = course(kept, ONE, TWO)
    split.assign([ONE, TWO])
    assert makers(kept.facts) == {1: "one", 2: "two", 3: "one", 4: "two"}
    measure(split, ONE, 1)
    split.end(ONE, None)
    split.end(TWO, None)
    split.settle()
    assert makers(kept.facts) == {1: "one"}


def test_facts_are_not_written_at_each_round() -> None:
    """Each time all of a thousand machines'."""
    kept = Kept()
    session = replace(SESSION, plan=replace(SESSION.kept_plan(), rounds=100))
    split = course(kept, ONE, session=session)
    split.assign([ONE])
    before = kept.updates
    measure(split, ONE, *range(1, 51))
    assert kept.updates - before < 10
    measure(split, ONE, *range(51, 101))
    split.end(ONE, Done.by(replace(SESSION, facts={"kernel": "6", "idle CPU": "1 %"})))
    assert kept.facts["idle CPU"] == "1 %" and len(makers(kept.facts)) == 100


def test_rounds_are_named_as_a_line_holds_them() -> None:
    observer = Shown()
    session = replace(SESSION, plan=replace(SESSION.kept_plan(), rounds=40))
    split = SplitCourse(session, session.kept_plan(), [ONE, TWO], Kept(), observer)
    split.assign([ONE, TWO])
    split.end(ONE, None)
    assert observer.told == [
        "one: 20 rounds: 1, 3, 5 and 17 more",
        "two: 20 rounds: 2, 4, 6 and 17 more",
        "one: 20 rounds: 1, 3, 5 and 17 more: assigned to another machine",
    ]


def test_many_machines_are_told_in_one_line_what_they_are_given() -> None:
    observer = Shown()
    session = replace(SESSION, plan=replace(SESSION.kept_plan(), rounds=40))
    many = [replace(ONE, name=f"b{number}", machine=f"{number}") for number in range(1, 13)]
    SplitCourse(session, session.kept_plan(), many, Kept(), observer).assign(many)
    assert observer.told == ["b1, b2, b3 and 9 more: 4 rounds each, at most"]


def test_what_is_left_is_counted_again_where_a_machine_begins_amid_the_course() -> None:
    """A machine that was cut off has made rounds meanwhile, which it says before it makes the rest."""
    observer = Shown()
    split = SplitCourse(SESSION, SESSION.kept_plan(), [ONE, TWO], Kept(), observer)
    assert split.left == (4 + 2) * 2
    split.assign([ONE, TWO])
    measure(split, TWO, 2)
    split.end(ONE, None)
    split.assign([ONE])
    measure(split, ONE, 1)
    split.on_event(ONE, PhaseStarted(PlanStep(0, parse_arm(ARMS[0])), "run"))
    assert observer.plans == [((2 + 1) * 2, 4)]


def test_the_first_lost_machine_that_is_back_is_not_given_what_all_had(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(split, "time", SimpleNamespace(monotonic=lambda: now))
    for seconds, there, given in (
        (1, [ONE, TWO], [("one", (1, 3)), ("two", (2, 4))]),
        (60, [ONE], [("one", (1, 2, 3, 4))]),  # the other is not waited for longer
    ):
        course_ = course(Kept(), ONE, TWO)
        course_.assign([ONE, TWO])
        for member in (ONE, TWO):
            course_.end(member, None)
        assert course_.assign([]) == [] and not course_.waits
        assert course_.assign([ONE]) == [] and course_.waits
        now += seconds
        assert [(member.name, share.assigned) for member, share in course_.assign(there)] == given
        assert not course_.waits


def test_who_had_a_round_has_it_again() -> None:
    """It may have made it meanwhile: then it only says it."""
    kept = Kept()
    session = replace(SESSION, plan=replace(SESSION.kept_plan(), rounds=8))
    begun = course(kept, ONE, TWO, session=session)
    begun.assign([ONE, TWO])
    measure(begun, ONE, 1)
    for member in (ONE, TWO):
        begun.end(member, None)
    assert [share.assigned for _, share in begun.assign([ONE, TWO])] == [(3, 5, 7, 8), (2, 4, 6)]
    resumed = course(Kept(), ONE, TWO, session=replace(session, facts=kept.facts, samples=tuple(kept.samples)))
    assert [share.assigned for _, share in resumed.assign([TWO, ONE])] == [(2, 4, 6, 8), (3, 5, 7)]


def test_a_session_goes_on_with_the_same_image_alone() -> None:
    split = course(Kept(), ONE)
    split.assign([ONE])
    measure(split, ONE, 2)
    again = course(Kept(), TWO, session=split.session)
    again.assign([TWO])
    with pytest.raises(UsageError, match=r"another image on two \(other\) than on one \(i\)"):
        measure(again, TWO, 1, image="other")


def test_a_machine_that_refuses_is_given_nothing_more() -> None:
    split = course(Kept(), ONE, TWO)
    split.assign([ONE, TWO])
    split.end(ONE, Failed("MachineError", "no room", "make some"))
    assert split.assign([ONE]) == []
    split.end(TWO, Failed("MachineError", "no room", "make some"))
    with pytest.raises(KitError, match="no room"):
        split.assign([ONE, TWO])


def test_another_image_is_not_mixed_in() -> None:
    split = course(Kept(), ONE, TWO)
    split.assign([ONE, TWO])
    measure(split, ONE, 1)
    with pytest.raises(UsageError, match=r"another image on two \(other\) than on one \(i\)"):
        measure(split, TWO, 2, image="other")


def test_machines_on_which_other_arms_run_are_not_mixed() -> None:
    split = course(Kept(), ONE, TWO)
    split.assign([ONE, TWO])
    measure(split, ONE, 1)
    with pytest.raises(KitError, match="differ: layer:overlay2 can't run"):
        split.on_event(TWO, FactsKnown.of(replace(SESSION, not_run=(NotRun(ARMS[1], "x", "y"),))))


def test_an_arm_that_runs_nowhere_is_not_waited_for() -> None:
    kept = Kept()
    split = course(kept, ONE)
    split.assign([ONE])
    found = replace(SESSION, not_run=(NotRun(ARMS[1], "x", "y"),))
    split.on_event(ONE, FactsKnown.of(found))
    for round_ in (1, 2, 3, 4):
        split.on_event(ONE, SampleTaken(sample(round_, ARMS[0])))
    assert kept.rounds() == [(round_, ARMS[0]) for round_ in (1, 2, 3, 4)]
    split.end(ONE, Done.by(found))
    assert split.done


def test_a_session_that_fails_on_a_machine_has_failed() -> None:
    split = course(Kept(), ONE)
    split.assign([ONE])
    split.end(ONE, Done.by(replace(SESSION, status=FAILED)))
    assert split.done and split.result().status == FAILED


def test_flags_are_of_runs_that_count() -> None:
    kept = Kept()
    split = course(kept, ONE)
    split.assign([ONE])
    measure(split, ONE, 1)
    split.on_event(ONE, RunFlagged(ARMS[0], "", 1, "steal 9%"))
    split.on_event(ONE, RunFlagged(ARMS[0], "", 2, "steal 9%"))
    assert kept.flags == [(ARMS[0], 1)]
    assert [item.flags for item in split.result().samples] == ["steal 9%", ""]


def test_facts_that_differ_name_their_machines() -> None:
    told = {"one": {"kernel": "6.1", "cpu": "c"}, "two": {"kernel": "6.8", "cpu": "c"}, "three": {"kernel": "6.1"}}
    assert merged_facts(told) == {"kernel": "one, three: 6.1; two: 6.8", "cpu": "one, two: c; three: none"}


@pytest.mark.parametrize("name", ["w1", "a" * 300, "builder-7.fleet.example.org", "…"])
def test_each_machine_has_its_part_under_a_name_of_its_own(name: str) -> None:
    found = local_session(SESSION, name).id
    check_session_id(found)
    assert found != local_session(SESSION, f"{name}x").id


AUTO = replace(SESSION, request=replace(SESSION.request, interleave="auto"))
ORDER = {"run order": "interleaved", "slice": "0.2 s", "why run order": "it waits for nothing"}


@pytest.mark.promise("faults", "A split session has one run order, whichever machine is lost.")
def test_the_first_machine_decides_whether_arms_are_interleaved() -> None:
    observer, kept = Shown(), Kept()
    split = SplitCourse(AUTO, AUTO.kept_plan(), [ONE, TWO, THREE], kept, observer)
    assert [(member.name, share.assigned) for member, share in split.assign([ONE, TWO, THREE])] == [("one", (1, 4))]
    assert observer.told[-1] == "one: decides whether arms are interleaved; the others wait for that"
    assert split.assign([TWO, THREE]) == []
    split.on_event(ONE, FactsKnown.of(replace(AUTO, facts={"kernel": "6", **ORDER})))
    given = split.assign([TWO, THREE])
    assert [(member.name, share.assigned) for member, share in given] == [("two", (2,)), ("three", (3,))]
    assert all(share.session.facts.items() >= ORDER.items() for _, share in given)
    assert kept.facts.items() >= ORDER.items()


@pytest.mark.promise("faults", "A split session has one run order, whichever machine is lost.")
def test_another_machine_decides_where_the_first_is_lost_before_it_has() -> None:
    split = course(Kept(), ONE, TWO, session=AUTO)
    split.assign([ONE, TWO])
    split.end(ONE, None)
    assert [(member.name, share.assigned) for member, share in split.assign([TWO])] == [("two", (1, 2, 3, 4))]


@pytest.mark.promise("faults", "A split session has one run order, whichever machine is lost.")
def test_a_split_session_that_is_resumed_keeps_its_run_order() -> None:
    begun = replace(AUTO, facts=ORDER)
    given = course(Kept(), ONE, TWO, session=begun).assign([ONE, TWO])
    assert [(member.name, share.assigned) for member, share in given] == [("one", (1, 3)), ("two", (2, 4))]
    assert all(share.session.facts.items() >= ORDER.items() for _, share in given)


def test_a_machine_that_decided_unheard_does_as_the_others_do() -> None:
    other = replace(AUTO, facts={"run order": "sequential", "why run order": "too short", "kernel": "5"})
    assert ordered_as(replace(AUTO, facts={"kernel": "6", **ORDER}), other.facts).facts == {
        "kernel": "6", "run order": "sequential", "why run order": "too short",
    }  # fmt: skip
    assert ordered_as(replace(AUTO, facts=ORDER), AUTO.facts).facts == ORDER


def test_machines_that_order_runs_differently_are_given_a_fix_that_works() -> None:
    """A machine that made runs before it was lost may have decided otherwise: no image makes the two equal."""
    first, other = (
        replace(sample(1, "bare"), digests=((RUN_ORDER, order),)) for order in ("sequential", "interleaved")
    )
    with pytest.raises(UsageError, match=r"another run order on m2 \(interleaved\) than on m1 \(sequential\)") as found:
        check_digests(first, "m1", other, "m2")
    assert "--interleave off" in found.value.hint
