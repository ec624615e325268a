"""Which stored sessions the matrix is of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kit.analysis.stats.estimate import FASTER, NOT_RUN, TOO_FEW
from kit.core.errors import UsageError
from kit.extra.matrix.renderers import MATRIX
from kit.extra.matrix.stored import MatrixQuestion, find_matrix
from kit.model.fact import DEFAULT_REFERENCE
from kit.model.machine import class_of
from kit.model.session import RUNNING, Request
from kit.report.renderer import find
from kit.store import Store
from tests.matrices import COSTS, FACTS, REFERENCE, in_copies, made, on_machine, suite
from tests.stores import new_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = new_store(tmp_path / "kit.db")
    found.add_new(suite())
    return found


def sources(store: Store, asked: MatrixQuestion | None = None) -> set[str]:
    found = find_matrix(store, asked or MatrixQuestion())
    return {cell.session for row in found.rows for cell in row.cells if cell.measured}


def test_the_newest_session_that_has_an_arm_counts(store: Store) -> None:
    few = {arm: COSTS["git:short"][arm] for arm in ("bare", REFERENCE, "layer:btrfs")}
    store.add(made("git:short", few, 2))
    store.add(made("git:short", few, 3, caches="cold"))
    store.add(replace(made("git:short", few, 4), status=RUNNING))
    found = find_matrix(store, MatrixQuestion())
    (row,) = (row for row in found.rows if row.scenario == "git:short")
    assert {cell.session for cell in row.cells if cell.measured} == {"git-short-003"}
    (row,) = find_matrix(store, MatrixQuestion(("git:short",), since=1.7e9)).rows
    assert [item.scenarios for item in find_matrix(store, MatrixQuestion(arms=("layer:vfs",))).means] == [3, 2]
    store.remove(["git-short-003"])
    assert sources(store, MatrixQuestion(("git:short",))) == {"git-short-001", "git-short-002"}


def test_a_single_round_replaces_no_session_with_intervals(store: Store) -> None:
    store.add(made("git:short", COSTS["git:short"], 2, rounds=1))
    (row,) = find_matrix(store, MatrixQuestion(("git:short",))).rows
    cells = {cell.arm: cell.session for cell in row.cells if cell.measured}
    assert row.counts and set(cells) == {*COSTS["git:short"]} - {"bare", REFERENCE}
    assert set(cells.values()) == {"git-short-001"}


def test_a_session_in_which_the_reference_failed_hides_none(store: Store) -> None:
    broken = made("git:short", COSTS["git:short"], 2)
    samples = [item for item in broken.samples if item.arm != REFERENCE]
    store.add(replace(broken, samples=tuple(samples)))
    found = find_matrix(store, MatrixQuestion(("git:short",)))
    assert {cell.session for row in found.rows for cell in row.cells if cell.measured} == {"git-short-001"}
    assert [item.why for item in found.left_out] == [f"no run of {REFERENCE} counts"]


def test_only_the_named_sessions_count(store: Store) -> None:
    store.add(made("git:short", COSTS["kernel:short"], 2))
    asked = MatrixQuestion(("git:short", "kernel:short"), sessions=("git-short-001", "kernel-short-001"))
    assert sources(store, asked) == {"git-short-001", "kernel-short-001"}


def test_copies_at_once_replace_no_session_of_one(store: Store) -> None:
    for number, seconds in ((2, {4: 20.0}), (3, {1: 10.0, 2: 12.0, 4: 21.0})):
        store.add(in_copies(made("git:short", COSTS["git:short"], number), seconds))
    store.add(made("git:short", COSTS["git:short"], 4))
    found = find_matrix(store, MatrixQuestion(("git:short",)))
    newest = {row.point: {cell.session for cell in row.cells if cell.measured} for row in found.rows}
    assert newest == {"": {"git-short-004"}, "copies=2": {"git-short-003"}, "copies=4": {"git-short-003"}}
    assert not found.left_out and {row.weight for row in found.rows} == {1 / 3}
    store.remove(["git-short-003"])
    found = find_matrix(store, MatrixQuestion(("git:short",)))
    assert [(row.point, row.cells[0].session) for row in found.rows] == [
        ("", "git-short-004"), ("copies=4", "git-short-002"),
    ]  # fmt: skip


def test_the_reference_is_that_of_the_sessions_or_as_asked(store: Store) -> None:
    assert find_matrix(store, MatrixQuestion()).reference == REFERENCE
    newer = made("git:short", {"bare": 0.9, REFERENCE: 1.0, "layer:overlayfs": 1.1}, 2)
    store.add(replace(newer, facts={**newer.facts, DEFAULT_REFERENCE.key: "layer:overlayfs"}))
    assert find_matrix(store, MatrixQuestion()).reference == REFERENCE  # it ran in three scenarios, the other in one
    found = find_matrix(store, MatrixQuestion(reference="layer:overlayfs"))
    assert [row.scenario for row in found.rows] == ["git:short"] and found.without == ("fsync:short", "kernel:short")
    bare = find_matrix(store, MatrixQuestion(reference="bare@ext4"))
    assert bare.reference == "bare" and bare.mean("layer:vfs").complete
    with pytest.raises(UsageError, match="no finished session compares an arm with layer:aufs"):
        find_matrix(store, MatrixQuestion(reference="layer:aufs"))


def test_classes_of_machines_are_not_mixed(store: Store) -> None:
    store.add(made("maven:short", COSTS["git:short"], 2, kernel="6.18.0", machine="bb"))
    found = find_matrix(store, MatrixQuestion())
    assert [row.scenario for row in found.rows] == ["maven:short"] and "Linux 6.18.0" in found.machine_class
    (other,) = found.classes
    assert "Linux 6.1.0" in other
    assert len(find_matrix(store, MatrixQuestion(machine_class=other)).rows) == 3
    for wanted, said in (("Xeon", "2 classes begin so"), ("Opteron", "no classes begin so")):
        with pytest.raises(UsageError, match=said):
            find_matrix(store, MatrixQuestion(machine_class=wanted))


def test_three_machines_of_a_class_are_pooled_two_are_not(tmp_path: Path) -> None:
    store = new_store(tmp_path / "fleet.db")
    for machine in range(2):
        store.add(on_machine(made("git:short", COSTS["git:short"], machine), machine))
    (row,) = find_matrix(store, MatrixQuestion()).rows
    assert row.machines == 1 and {cell.session for cell in row.cells} == {"m1-git-short-001"}
    store.add(on_machine(made("git:short", COSTS["git:short"], 2), 2))
    shared = made("git:short", COSTS["git:short"], 5, worker="builder-1, builder-2")
    store.add(replace(shared, facts={**shared.facts, "class": "large"}))
    found = find_matrix(store, MatrixQuestion())
    cell = found.rows[0].cell("layer:btrfs")
    assert cell and (cell.n, cell.verdict) == (3, FASTER)
    assert [item.session for item in found.left_out] == [shared.id]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kit_version": "0"}, "kit: 1 → 0"),
        ({"machine": "bb"}, "another machine"),
        ({"caches": "cold"}, "caches: warm → cold"),
        ({"digest": "ff"}, "scenario changed (git:short → ff)"),
    ],
)
def test_an_older_session_of_other_work_fills_no_row(tmp_path: Path, change: dict[str, str], said: str) -> None:
    """``kit compare -- make`` in two projects makes two sessions with one title."""
    new = new_store(tmp_path / "kit.db")
    few = {arm: COSTS["git:short"][arm] for arm in ("bare", REFERENCE, "layer:btrfs")}
    old = made("git:short", COSTS["git:short"], 1)
    old = replace(old, kit_version=change.get("kit_version", "1"))
    old = replace(old, facts={**old.facts, **{key: text for key, text in change.items() if key in old.facts}})
    if "digest" in change:
        samples = tuple(replace(item, digests=(("scenario", change["digest"]),)) for item in old.samples)
        old = replace(old, samples=samples)
    new.add_new([old, made("git:short", few, 2)])
    found = find_matrix(new, MatrixQuestion())
    assert {cell.session for cell in found.rows[0].cells if cell.measured} == {"git-short-002"}
    assert [(item.session, item.why) for item in found.left_out] == [(old.id, said)]


def test_variants_are_no_part(store: Store) -> None:
    """They ask another question: their arms do not choose the reference, and their figures fill no cell."""
    other = {"bare": 0.9, REFERENCE: 1.0, "layer:btrfs": 3.0}
    for number, change in enumerate(
        (
            Request(commands=(("a", "make"), ("b", "make -j4"))),
            Request(revisions=(("main", "0" * 40),)),
        ),
        start=2,
    ):
        session = made("git:short", other, number)
        store.add(replace(session, request=change, facts={**session.facts, DEFAULT_REFERENCE.key: "layer:btrfs"}))
    found = find_matrix(store, MatrixQuestion())
    assert found.reference == REFERENCE
    assert sources(store) == {"fsync-short-001", "git-short-001", "kernel-short-001"}
    assert {item.session: item.why.split()[0] for item in found.left_out} == {
        "git-short-002": "compares", "git-short-003": "compares",
    }  # fmt: skip
    store.remove(["git-short-001", "fsync-short-001", "kernel-short-001"])
    with pytest.raises(UsageError, match="no session compares arms alone: git-short-003 compares commands"):
        find_matrix(store, MatrixQuestion())


def test_a_class_is_not_left_for_a_mistake_of_the_question(store: Store) -> None:
    """A weight that fits an older class alone is an error: another class would answer another question."""
    store.add(made("maven:short", COSTS["git:short"], 2, kernel="6.18.0", machine="bb"))
    with pytest.raises(UsageError, match="--weight git: no scenario of the matrix"):
        find_matrix(store, MatrixQuestion(weights={"git": 2}))
    store.add(made("make", {"bare": 1.0}, 3, kernel="6.19.0", machine="cc"))  # compares nothing: an older class does
    assert "Linux 6.18.0" in find_matrix(store, MatrixQuestion()).machine_class


def test_many_other_machines_leave_room_for_older_sessions(store: Store) -> None:
    """The newest sessions are shared out among the machines of the class that have the reference."""
    few = {arm: COSTS["git:short"][arm] for arm in ("bare", REFERENCE, "layer:btrfs")}
    store.add(made("git:short", few, 2))
    alone = {"bare": 0.9, REFERENCE: 1.0}
    store.add_new(
        replace(made("git:short", alone, 0, rounds=2, kernel="6.18.0", machine=f"other{number}"), id=f"other-{number}")
        for number in range(61)
    )
    (row,) = find_matrix(store, MatrixQuestion(("git:short",), machine_class=class_of(FACTS))).rows
    assert {cell.session for cell in row.cells if cell.measured} == {"git-short-001", "git-short-002"}


def test_machines_with_other_work_are_not_pooled(tmp_path: Path) -> None:
    """An arm that ran is not said to be not run."""
    store, title = new_store(tmp_path / "fleet.db"), "git:short"
    for machine in range(3):
        session = on_machine(made(title, COSTS[title], machine), machine)
        samples = [replace(item, digests=(("scenario", f"{machine}" * 8),)) for item in session.samples]
        store.add(replace(session, samples=tuple(samples)))
    (row,) = find_matrix(store, MatrixQuestion()).rows
    assert row.machines == 1 and {cell.session for cell in row.cells} == {"m2-git-short-002"}
    few = {arm: cost for arm, cost in COSTS[title].items() if arm != "layer:vfs"}
    for machine in range(3):
        store.add(on_machine(made(title, few if machine else COSTS[title], machine + 5), machine))
    found = find_matrix(store, MatrixQuestion())
    verdicts = {cell.arm: cell.verdict for cell in found.rows[0].cells}
    assert verdicts["layer:btrfs"] == FASTER and verdicts["layer:vfs"] == TOO_FEW
    shown = find(MATRIX, "table").render(found)
    assert (
        "too few machines: layer:vfs (same work on 1: 3 are the minimum" in " ".join(shown.split())
        and NOT_RUN not in shown
    )


def test_what_is_not_there_is_said(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no finished session of 'gti'"):
        find_matrix(store, MatrixQuestion(("gti",)))
    with pytest.raises(UsageError, match="no finished session yet"):
        find_matrix(new_store(tmp_path / "empty.db"), MatrixQuestion())
