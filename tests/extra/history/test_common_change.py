"""Whose a change is: one machine's, or what the machines of a class have in common."""

import random
from dataclasses import replace

import pytest

from kit.analysis.runs.compare import Comparison
from kit.analysis.session.entry import Conditions, Entry
from kit.analysis.session.outcome import Outcome
from kit.extra.history.analysis.change_attribution import (
    COMMON,
    MACHINES,
    SOME,
    UNTOLD,
    CommonChange,
    find_common,
    tracks_by_machine,
)
from kit.extra.history.report.change_attribution import common_lines

NIGHTS, STEP, DAY = 20, 10, 86400.0
_FOUND = Comparison("layer:overlay2", "bare", "total", "real", 1.0, None, None, 5, 0.0, None, None, None, "no interval")


def nights(machine: str, rise: float = 0.0, at: int = STEP, noise: float = 0.005, **facts: str) -> list[Entry]:
    """Of one machine: 1.05 with noise, from night ``at`` on so much more."""
    dice = random.Random(machine)
    entries = []
    for i in range(NIGHTS):
        ratio = 1.05 + dice.gauss(0, noise) + (rise if i >= at else 0)
        outcome = Outcome(replace(_FOUND, ratio=ratio), 10 * ratio, 10.0, True, ())
        now = {"class": "large", **{key: text for key, text in facts.items() if i >= at or key == "class"}}
        entries.append(Entry(f"{machine}-{i}", 1e9 + i * DAY, machine, "1", Conditions(now), outcome, machine))
    return entries


def found(*machines: list[Entry]) -> tuple[CommonChange, ...]:
    return find_common(tracks_by_machine([entry for one in machines for entry in one]))


def test_a_rise_of_one_machine_is_its_own() -> None:
    (change,) = found(nights("m0", 0.05), *(nights(f"m{i}") for i in range(1, 6)))
    assert (change.whose, change.watched, [item.machine for item in change.changes]) == (MACHINES, 6, ["m0"])
    (line,) = common_lines([change])
    assert line.startswith("m0, of 6 machines of large, rose by +") and "specific to that machine" in line


def test_a_rise_of_most_machines_is_what_they_have_in_common() -> None:
    (change,) = found(nights("m0"), *(nights(f"m{i}", 0.05, STEP + i % 2) for i in range(1, 6)))
    assert (change.whose, len(change.changes), change.watched) == (COMMON, 5, 6)
    (line,) = common_lines([change])
    assert line.startswith("5 of 6 machines of large (") and "common to several machines" in line


def test_a_rise_of_some_names_what_tells_them_from_the_others() -> None:
    old = [nights(f"m{i}", kernel="6.1") for i in range(4)]
    new = [nights(f"n{i}", 0.05, kernel="6.8") for i in range(2)]
    (change,) = found(*old, *new)
    assert (change.whose, change.shared) == (SOME, ("kernel: 6.8",))
    assert "only these machines have: kernel: 6.8" in common_lines([change])[0]


def upgraded(machine: str, rise: float, at: int = STEP) -> list[Entry]:
    """With a new kernel from night ``at`` on."""
    made = nights(machine, rise, at)
    for i, item in enumerate(made):
        facts = {**item.conditions.facts, "kernel": "6.1" if i < at else "6.8"}
        made[i] = replace(item, conditions=Conditions(facts))
    return made


def test_a_rise_that_came_with_a_kernel_is_found_and_the_kernel_named() -> None:
    """Of each machine by itself these are two series, neither of which has a change."""
    (change,) = found(*(upgraded(f"m{i}", 0.05) for i in range(5)))
    assert (change.whose, change.came_with, len(change.changes)) == (COMMON, ("kernel: 6.1 → 6.8",), 5)
    assert common_lines([change])[0].endswith("common to several machines: it came with kernel: 6.1 → 6.8")


def test_machines_that_are_given_a_kernel_one_after_the_other_are_reported_together() -> None:
    (change,) = found(*(upgraded(f"m{i}", 0.05, 5 + 2 * i) for i in range(5)))
    assert (change.whose, len(change.changes)) == (COMMON, 5) and change.between[0] < change.between[1]


def test_the_one_machine_with_a_new_kernel_is_not_said_to_be_at_fault() -> None:
    (change,) = found(upgraded("m0", 0.05), *(nights(f"m{i}", at=0, kernel="6.1") for i in range(1, 5)))
    assert (change.whose, change.came_with) == (MACHINES, ("kernel: 6.1 → 6.8",))
    said = common_lines([change])[0]
    assert (
        "or to a change that only it received: it came with kernel: 6.1 → 6.8" in said
        and "a change of driver" not in said
    )


def test_what_others_were_given_too_without_a_rise_is_not_blamed() -> None:
    (change,) = found(upgraded("m0", 0.05), *(upgraded(f"m{i}", 0.0) for i in range(1, 5)))
    assert (change.whose, change.came_with) == (MACHINES, ())
    assert "specific to that machine: a change of driver or kernel" in common_lines([change])[0]


def test_settings_that_were_asked_for_otherwise_are_no_change_of_the_machine() -> None:
    machines = []
    for i in range(4):
        made = nights(f"m{i}", 0.05)
        for k, item in enumerate(made):
            facts = {**item.conditions.facts, "caches": "warm" if k < STEP else "cold"}
            made[k] = replace(item, conditions=Conditions(facts))
        machines.append(made)
    assert found(*machines) == ()


def test_machines_too_noisy_to_be_found_alone_count_where_others_changed() -> None:
    noisy = [nights(f"n{i}", 0.05, noise=0.03) for i in range(4)]
    (change,) = found(*(nights(f"m{i}", 0.05) for i in range(2)), *noisy)
    assert change.whose == COMMON and len(change.changes) + len(change.following) > 3 and len(change.following) > 1
    said = common_lines([change])[0]
    assert " of 6 machines of large (" in said and "others with less confidence: common to" in said


def test_among_many_machines_that_did_not_move_none_is_said_to_have() -> None:
    (change,) = found(nights("m0", 0.05), *(nights(f"n{i}") for i in range(80)))
    assert (change.whose, change.watched, change.following) == (MACHINES, 81, ())


@pytest.mark.parametrize("count", [1, 2])
def test_of_few_machines_nothing_is_attributed(count: int) -> None:
    (change,) = found(nights("m0", 0.05), *(nights(f"m{i}") for i in range(1, count)))
    assert change.whose == UNTOLD and "attribution needs at least 3 machines" in common_lines([change])[0]


def test_classes_and_directions_are_apart() -> None:
    large = [nights(f"m{i}", 0.05) for i in range(3)]
    small = [nights(f"s{i}", -0.05, STEP, 0.005, **{"class": "small"}) for i in range(3)]
    changes = found(*large, *small)
    assert {(item.machine_class, item.up, item.whose) for item in changes} == {
        ("large", True, COMMON), ("small", False, COMMON),
    }  # fmt: skip


def test_rises_at_other_times_are_two() -> None:
    changes = found(nights("m0", 0.05, 6), nights("m1", 0.05, 14), nights("m2"), nights("m3"))
    assert [(item.changes[0].machine, item.whose) for item in changes] == [("m0", MACHINES), ("m1", MACHINES)]


def test_a_machine_without_sessions_on_both_sides_does_not_count() -> None:
    (change,) = found(nights("m0", 0.05), nights("m1"), nights("m2"), nights("new")[STEP + 2 :])
    assert change.watched == 3


def test_nothing_changed_is_nothing_said() -> None:
    assert found(*(nights(f"m{i}") for i in range(5))) == ()
