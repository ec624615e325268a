"""One session on several machines: blocks count whole or not at all, and once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from kit.core.errors import KitError, UsageError
from kit.fleet import split
from kit.fleet.merge import merged_facts
from kit.fleet.share import local_session
from kit.fleet.split import SplitCourse
from kit.model.arm import parse_arm
from kit.model.fact import makers
from kit.model.member import Member
from kit.model.plan import PlanStep
from kit.model.sample import Phase, Sample
from kit.model.session import DONE, FAILED, RUNNING, NotRun, Request, Session, check_session_id
from kit.report.progress import Quiet
from kit.session.freeze import kept_plan
from kit.session.guest_protocol import Done, Failed, Flagged, Measured, Running, Updated

ARMS = ("bare", "layer:overlay2")
SESSION = Session(
    id="20260101-000000-aaaa", created=1e9, kit_version="0", title="true", status=RUNNING,
    request=Request(command=("true",), arms=ARMS, rounds=4), arms=ARMS, baselines=((ARMS[1], ARMS[0]),), seed=1,
)  # fmt: skip
ONE = Member(
    name="one", kind="x", kit_version="0", probe="p", kernel="6", cpu="c", cores=1, memory=1, virtualization="none",
    root=True, machine="m",
)  # fmt: skip
TWO, THREE = replace(ONE, name="two"), replace(ONE, name="three")


@dataclass
class Kept:
    """What the client's store is told."""

    samples: list[Sample] = field(default_factory=list)
    together: list[list[tuple[int, str]]] = field(default_factory=list)  # runs that it was given at once
    flags: list[tuple[str, int]] = field(default_factory=list)
    facts: Mapping[str, str] = field(default_factory=dict)
    updates: int = 0

    def update(self, session: Session) -> None:
        self.facts = session.facts
        self.updates += 1

    def session(self) -> Session:
        """As the store has it when the client is killed."""
        return replace(SESSION, facts=self.facts, samples=tuple(self.samples))

    def add_sample(self, session_id: str, *samples: Sample) -> None:
        self.samples += samples
        self.together.append([(sample.block, sample.arm) for sample in samples])

    def set_flags(self, session_id: str, arm: str, point: str, block: int, flags: str) -> None:
        self.flags.append((arm, block))

    def blocks(self) -> list[tuple[int, str]]:
        return sorted((item.block, item.arm) for item in self.samples)


class Told(Quiet):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.plans: list[tuple[int, int]] = []

    def tell(self, text: str) -> None:
        self.told.append(text)

    def planned(self, steps: int, done: int) -> None:
        self.plans.append((steps, done))


def course(kept: Kept, *members: Member, session: Session = SESSION) -> SplitCourse:
    return SplitCourse(session, kept_plan(session), members, kept, Quiet())


def sample(block: int, arm: str, image: str = "i") -> Sample:
    phase = Phase(name="run", status="ok", real=1.0)
    return Sample(arm, block, "measured", "ok", 1e9 + block, (phase,), log="/log", digests=(("image", image),))


def measure(split: SplitCourse, member: Member, *blocks: int, arms: tuple[str, ...] = ARMS, image: str = "i") -> None:
    split.hear(member, Updated(replace(SESSION, facts={"kernel": "6"})))
    for block in blocks:
        for arm in arms:
            split.hear(member, Measured(sample(block, arm, image)))


ALL = [(block, arm) for block in (1, 2, 3, 4) for arm in ARMS]


def test_a_part_is_known_by_the_session_that_its_user_knows() -> None:
    shares = [share for _, share in course(Kept(), ONE, TWO).deal([ONE, TWO])]
    assert {share.name for share in shares} == {f"{SESSION.title} {SESSION.id}"}
    assert len({share.session.id for share in shares} | {SESSION.id}) == 3


def test_machines_take_turns() -> None:
    kept = Kept()
    split = course(kept, ONE, TWO)
    assert [(member.name, share.blocks) for member, share in split.deal([ONE, TWO, THREE])] == [
        ("one", (1, 3)),
        ("two", (2, 4)),
    ]
    measure(split, ONE, 1, 3)
    measure(split, TWO, 2, 4)
    assert not split.done
    split.end(ONE, Done(SESSION))
    split.end(TWO, Done(SESSION))
    assert split.done and kept.blocks() == ALL
    assert split.result().status == DONE and makers(kept.facts) == {1: "one", 3: "one", 2: "two", 4: "two"}
    assert kept.samples[0].log == "one:/log"
    assert sorted(map(sorted, kept.together)) == [[(block, arm) for arm in ARMS] for block in (1, 2, 3, 4)]


def test_what_a_lost_machine_had_not_finished_is_anothers_and_what_it_had_counts_once() -> None:
    kept = Kept()
    split = course(kept, ONE, TWO)
    split.deal([ONE, TWO])
    measure(split, ONE, 1)
    measure(split, ONE, 3, arms=ARMS[:1])
    split.end(ONE, None)
    assert kept.blocks() == ALL[:2]
    assert [(member.name, share.blocks) for member, share in split.deal([THREE])] == [("three", (3,))]
    measure(split, THREE, 1, 3)  # block 1 is not its own: it is another's already
    split.end(THREE, Done(SESSION))
    measure(split, TWO, 2, 4)
    measure(split, TWO, 2, 4)
    split.end(TWO, Done(SESSION))
    assert split.done and kept.blocks() == ALL
    assert makers(kept.facts) == {1: "one", 2: "two", 3: "three", 4: "two"}


def test_a_session_goes_on_with_the_rounds_that_it_lacks() -> None:
    kept = Kept()
    split = course(kept, ONE)
    split.deal([ONE])
    measure(split, ONE, 2)
    begun = split.session
    again = course(kept, TWO, session=begun)
    assert [share.blocks for _, share in again.deal([TWO])] == [(1, 3, 4)]


def test_who_is_killed_has_lost_no_round_and_no_half_round_counts() -> None:
    """Facts are not written at each round: the store knows of each run whose it is before it has it."""
    kept = Kept()
    split = course(kept, ONE, TWO)
    split.deal([ONE, TWO])
    measure(split, ONE, 1)
    measure(split, TWO, 2)
    kept.add_sample(SESSION.id, sample(4, ARMS[0]))  # between two runs of a round
    again = Kept()
    resumed = course(again, THREE, session=kept.session())
    assert [share.blocks for _, share in resumed.deal([THREE])] == [(3, 4)]
    measure(resumed, THREE, 3, 4)
    resumed.end(THREE, Done(SESSION))
    assert makers(again.facts) == {1: "one", 2: "two", 3: "three", 4: "three"}
    found = resumed.result().samples
    assert sorted((item.block, item.arm) for item in found) == ALL


def test_what_was_given_and_not_made_is_no_machines_in_the_end() -> None:
    kept = Kept()
    split = course(kept, ONE, TWO)
    split.deal([ONE, TWO])
    assert makers(kept.facts) == {1: "one", 2: "two", 3: "one", 4: "two"}
    measure(split, ONE, 1)
    split.end(ONE, None)
    split.end(TWO, None)
    split.settle()
    assert makers(kept.facts) == {1: "one"}


def test_facts_are_not_written_at_each_round() -> None:
    """Each time all of a thousand machines'."""
    kept = Kept()
    session = replace(SESSION, request=replace(SESSION.request, rounds=100))
    split = course(kept, ONE, session=session)
    split.deal([ONE])
    before = kept.updates
    measure(split, ONE, *range(1, 51))
    assert kept.updates - before < 10
    measure(split, ONE, *range(51, 101))
    split.end(ONE, Done(replace(SESSION, facts={"kernel": "6", "idle CPU": "1 %"})))
    assert kept.facts["idle CPU"] == "1 %" and len(makers(kept.facts)) == 100


def test_rounds_are_named_as_a_line_holds_them() -> None:
    observer = Told()
    session = replace(SESSION, request=replace(SESSION.request, rounds=40))
    split = SplitCourse(session, kept_plan(session), [ONE, TWO], Kept(), observer)
    split.deal([ONE, TWO])
    split.end(ONE, None)
    assert observer.told == [
        "one: 20 rounds: 1, 3, 5 and 17 more",
        "two: 20 rounds: 2, 4, 6 and 17 more",
        "one: 20 rounds: 1, 3, 5 and 17 more: given to another",
    ]


def test_many_machines_are_told_in_one_line_what_they_are_given() -> None:
    observer = Told()
    session = replace(SESSION, request=replace(SESSION.request, rounds=40))
    many = [replace(ONE, name=f"b{number}") for number in range(1, 13)]
    SplitCourse(session, kept_plan(session), many, Kept(), observer).deal(many)
    assert observer.told == ["b1, b2, b3 and 9 more: 4 rounds each, at most"]


def test_what_is_left_is_counted_anew_where_a_machine_begins_amid_the_course() -> None:
    """A machine that was cut off has made rounds meanwhile, which it says before it makes the rest."""
    observer = Told()
    split = SplitCourse(SESSION, kept_plan(SESSION), [ONE, TWO], Kept(), observer)
    assert split.left == (4 + 2) * 2
    split.deal([ONE, TWO])
    measure(split, TWO, 2)
    split.end(ONE, None)
    split.deal([ONE])
    measure(split, ONE, 1)
    split.hear(ONE, Running(PlanStep(0, parse_arm(ARMS[0]), "warmup"), "run"))
    assert observer.plans == [((2 + 1) * 2, 4)]


def test_the_first_lost_machine_that_is_back_is_not_given_what_all_had(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(split, "time", SimpleNamespace(monotonic=lambda: now))
    for seconds, there, given in (
        (1, [ONE, TWO], [("one", (1, 3)), ("two", (2, 4))]),
        (60, [ONE], [("one", (1, 2, 3, 4))]),  # the other is not waited for longer
    ):
        course_ = course(Kept(), ONE, TWO)
        course_.deal([ONE, TWO])
        for member in (ONE, TWO):
            course_.end(member, None)
        assert course_.deal([]) == [] and not course_.waits
        assert course_.deal([ONE]) == [] and course_.waits
        now += seconds
        assert [(member.name, share.blocks) for member, share in course_.deal(there)] == given
        assert not course_.waits


def test_who_had_a_round_has_it_again() -> None:
    """It may have made it meanwhile: then it only says it."""
    kept = Kept()
    session = replace(SESSION, request=replace(SESSION.request, rounds=8))
    begun = course(kept, ONE, TWO, session=session)
    begun.deal([ONE, TWO])
    measure(begun, ONE, 1)
    for member in (ONE, TWO):
        begun.end(member, None)
    assert [share.blocks for _, share in begun.deal([ONE, TWO])] == [(3, 5, 7, 8), (2, 4, 6)]
    resumed = course(Kept(), ONE, TWO, session=replace(session, facts=kept.facts, samples=tuple(kept.samples)))
    assert [share.blocks for _, share in resumed.deal([TWO, ONE])] == [(2, 4, 6, 8), (3, 5, 7)]


def test_a_session_goes_on_with_the_same_image_alone() -> None:
    split = course(Kept(), ONE)
    split.deal([ONE])
    measure(split, ONE, 2)
    again = course(Kept(), TWO, session=split.session)
    again.deal([TWO])
    with pytest.raises(UsageError, match=r"another image on two \(other\) than on one \(i\)"):
        measure(again, TWO, 1, image="other")


def test_a_machine_that_refuses_is_given_nothing_more() -> None:
    split = course(Kept(), ONE, TWO)
    split.deal([ONE, TWO])
    split.end(ONE, Failed("MachineError", "no room", "make some"))
    assert split.deal([ONE]) == []
    split.end(TWO, Failed("MachineError", "no room", "make some"))
    with pytest.raises(KitError, match="no room"):
        split.deal([ONE, TWO])


def test_another_image_is_not_mixed_in() -> None:
    split = course(Kept(), ONE, TWO)
    split.deal([ONE, TWO])
    measure(split, ONE, 1)
    with pytest.raises(UsageError, match=r"another image on two \(other\) than on one \(i\)"):
        measure(split, TWO, 2, image="other")


def test_machines_on_which_other_arms_run_are_not_mixed() -> None:
    split = course(Kept(), ONE, TWO)
    split.deal([ONE, TWO])
    measure(split, ONE, 1)
    with pytest.raises(KitError, match="not alike: layer:overlay2 can't run"):
        split.hear(TWO, Updated(replace(SESSION, not_run=(NotRun(ARMS[1], "x", "y"),))))


def test_an_arm_that_runs_nowhere_is_not_waited_for() -> None:
    kept = Kept()
    split = course(kept, ONE)
    split.deal([ONE])
    found = replace(SESSION, not_run=(NotRun(ARMS[1], "x", "y"),))
    split.hear(ONE, Updated(found))
    for block in (1, 2, 3, 4):
        split.hear(ONE, Measured(sample(block, ARMS[0])))
    assert kept.blocks() == [(block, ARMS[0]) for block in (1, 2, 3, 4)]
    split.end(ONE, Done(found))
    assert split.done


def test_a_session_that_fails_on_a_machine_has_failed() -> None:
    split = course(Kept(), ONE)
    split.deal([ONE])
    split.end(ONE, Done(replace(SESSION, status=FAILED)))
    assert split.done and split.result().status == FAILED


def test_flags_are_of_runs_that_count() -> None:
    kept = Kept()
    split = course(kept, ONE)
    split.deal([ONE])
    measure(split, ONE, 1)
    split.hear(ONE, Flagged(ARMS[0], "", 1, "steal 9%"))
    split.hear(ONE, Flagged(ARMS[0], "", 2, "steal 9%"))
    assert kept.flags == [(ARMS[0], 1)]
    assert [item.flags for item in split.result().samples] == ["steal 9%", ""]


def test_facts_that_differ_name_their_machines() -> None:
    told = {"one": {"kernel": "6.1", "cpu": "c"}, "two": {"kernel": "6.8", "cpu": "c"}, "three": {"kernel": "6.1"}}
    assert merged_facts(told) == {"kernel": "one, three: 6.1; two: 6.8", "cpu": "one, two: c; three: none"}


@pytest.mark.parametrize("name", ["w1", "a" * 300, "builder-7.farm.example.org", "…"])
def test_each_machine_has_its_part_under_a_name_of_its_own(name: str) -> None:
    found = local_session(SESSION, name).id
    check_session_id(found)
    assert found != local_session(SESSION, f"{name}x").id
