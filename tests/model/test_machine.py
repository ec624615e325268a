"""Which machines of a fleet a session takes."""

from dataclasses import replace

import pytest

from kit.core.errors import MachineError, UsageError
from kit.model.arm import parse_arms
from kit.model.drivers import Docker
from kit.model.machine import Member, Selection, choose, parse_where

SMALL = Member(
    name="s1", kind="small", kit_version="0.6.0", probe="abc", kernel="6.8.0-40-generic #1 SMP", cpu="Xeon Gold 6240",
    cores=8, memory=32 << 30, virtualization="none", root=True, machine="0123",
)  # fmt: skip
ALSO = replace(SMALL, name="s2", machine="4567")
LARGE = replace(SMALL, name="l1", machine="89ab", kind="large", cores=64, memory=256 << 30, docker=Docker("29.1.0"))


def names(selection: Selection, *members: Member, arms: str = "bare") -> list[str]:
    return [member.name for member in choose(members, selection, parse_arms(arms))]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("cores>=32", ["l1"]),
        ("cores<64", ["s1", "s2"]),
        ("memory>=256G", ["l1"]),
        ("cores=8, name!=s1", ["s2"]),
        ("cpu=*Gold*", ["s1", "s2", "l1"]),
        ("kernel=6.8.*", ["s1", "s2", "l1"]),
        ("class=large", ["l1"]),
        ("docker=29*", ["l1"]),
    ],
)
def test_conditions_pick_machines(where: str, found: list[str]) -> None:
    assert names(Selection(where=parse_where(where)), SMALL, ALSO, LARGE) == found


@pytest.mark.parametrize(
    "text", ["cores", "color=red", "cores>=many", "cpu>=9", "memory>=much", ">=3", f"cores>={'9' * 5_000}"]
)
def test_what_is_no_condition_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="--where"):
        parse_where(text)


def test_n_machines_of_a_class() -> None:
    assert names(Selection(count=1, kind="small"), SMALL, ALSO, LARGE) == ["s1"]
    assert names(Selection(), SMALL, ALSO, LARGE) == ["s1", "s2", "l1"]
    with pytest.raises(MachineError, match="3 wanted, 2 can take part"):
        names(Selection(count=3, kind="small"), SMALL, ALSO, LARGE)


def test_a_machine_takes_part_by_one_worker_unless_each_has_a_lock_of_its_own() -> None:
    again = replace(SMALL, name="s3")
    assert names(Selection(kind="small"), SMALL, again, ALSO) == ["s1", "s2"]
    with pytest.raises(
        MachineError, match=r"2 wanted, 1 can take part: the fleet has 1 machine, 1 of that.*s1, s3 are workers"
    ):
        names(Selection(count=2), SMALL, again)
    together = [replace(item, together=True) for item in (SMALL, again)]
    assert names(Selection(alike=True), *together) == ["s1", "s3"]


def test_machines_that_share_rounds_are_the_same() -> None:
    with pytest.raises(UsageError, match=r"'large' \(1\); 'small' \(2\)"):
        names(Selection(alike=True), SMALL, ALSO, LARGE)
    assert names(Selection(alike=True, kind="small"), SMALL, ALSO, LARGE) == ["s1", "s2"]


@pytest.mark.parametrize(
    ("other", "what"), [(replace(ALSO, kit_version="other"), "kits"), (replace(ALSO, probe="other"), "probes")]
)
def test_different_kits_and_probes_are_not_mixed(other: Member, what: str) -> None:
    with pytest.raises(UsageError, match=f"different {what} are not mixed: .* on s1; other on s2"):
        names(Selection(), SMALL, other)


def test_a_machine_that_was_examined_takes_no_arm_that_does_not_work_there() -> None:
    some = replace(SMALL, drivers=("docker/overlay2",), filesystems=("ext4", "xfs"))
    assert names(Selection(), some, arms="bare@xfs,layer:overlay2") == ["s1"]
    with pytest.raises(MachineError, match="s1 has no docker/btrfs"):
        names(Selection(), some, arms="layer:btrfs@ext4")
    with pytest.raises(MachineError, match="s1 has no zfs"):
        names(Selection(), some, arms="bare@zfs")
    # Engine roots are made there when they are needed: none was tried.
    assert names(Selection(), some, arms="layer:docker@29/btrfs@ext4") == ["s1"]


def test_a_machine_takes_no_arm_that_its_docker_cannot_have() -> None:
    with pytest.raises(MachineError, match=r"s1: docker 29\.1\.0 has no aufs, only docker below 24 has it"):
        names(Selection(), replace(SMALL, docker=Docker("29.1.0")), arms="bare,layer:aufs")
    assert names(Selection(), replace(SMALL, docker=Docker("20.10.24")), arms="bare,layer:aufs") == ["s1"]
