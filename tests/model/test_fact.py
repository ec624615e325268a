"""Facts by their kinds: what was recorded is found again, whatever it is called and whichever kit has kept it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import kit
from kit.model import fact
from kit.model.fact import KINDS, OTHER, Kind, read_facts, stored
from kit.model.session import Request, Session
from tests.sources import parsed

#: As kits before this registry have stored them.
KEPT = {
    "machine": fact.MACHINE, "kernel": fact.KERNEL, "host kernel": fact.HOST_KERNEL, "overlay": fact.OVERLAY,
    "machine CPU from": fact.CPU_SOURCE, "identity of the device": fact.DEVICE,
    "identity of the thin device": fact.DEVICE, "filesystem ext4": fact.FILESYSTEM,
    "unconfirmed options of tmpfs": fact.UNCONFIRMED, "compiler of host@ext4": fact.COMPILER,
    "compiler of bare@ext4": fact.COMPILER, "podman runs": fact.RUNS, "running docker": fact.RUNNING_ENGINE,
    "btrfs of it": fact.RUNNING_STATUS, "overlay2 on ext4": fact.DRIVER_STATUS,
    "overlay+metacopy=on of podman on xfs": fact.DRIVER_STATUS, "overlayfs of docker@28 on ext4": fact.DRIVER_STATUS,
    "dockerd": fact.PROGRAM, "conmon of podman": fact.PROGRAM, "containerd of docker@28": fact.PROGRAM,
    "no outside CPU": fact.NO_OUTSIDE_CPU, "no cgroup CPU on host arms": fact.NO_CGROUP_CPU_ON_HOST,
    "no rerun of layer:overlay2 at jobs=2": fact.NO_RERUN, "no rerun of layer:zfs on": fact.NO_RERUN,
    "whatever another kit says": OTHER,
}  # fmt: skip


@pytest.mark.parametrize(("key", "kind"), KEPT.items())
def test_what_is_stored_is_of_its_kind(key: str, kind: Kind) -> None:
    (found,) = read_facts({key: "text"})
    assert found.kind is kind, found
    assert found in kind.find({"x": "1", key: "text", "of a kind": "that is not known"})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.key)
def test_what_is_made_is_found_by_its_kind(kind: Kind) -> None:
    of = {
        fact.DEVICE: "thin device",
        fact.DRIVER_STATUS: "zfs on zfs",
        fact.PROGRAM: "runc",
        fact.BUSY_BEFORE: "3",
    }.get(kind, "it")
    made = kind.fact("said", of if "{}" in kind.key else "")
    kept = stored([fact.MACHINE.fact("aa"), made, fact.SEED.fact("7"), made])
    assert made in kind.find(kept)
    assert kind.text(kept, of=made.of) == "said" and kind.text({}, "none", made.of) == "none"
    assert made.volatile == kind.volatile


def test_the_registry_holds_every_kind_once() -> None:
    made = [value for value in vars(fact).values() if isinstance(value, Kind) and value is not OTHER]
    assert sorted(made, key=id) == sorted(KINDS, key=id)


def test_what_a_session_learns_takes_the_place_of_what_it_had() -> None:
    session = Session("x", 1.0, "0", "t", "running", Request(), ("bare",), (), 1, {"machine": "a", "kernel": "6"})
    later = session.with_facts([fact.KERNEL.fact("7"), fact.COMPILER.fact("cc 12", "bare@ext4")])
    assert list(later.facts.items()) == [("machine", "a"), ("kernel", "7"), ("compiler of bare@ext4", "cc 12")]
    assert [(item.of, item.text) for item in fact.COMPILER.find(later.facts)] == [("bare@ext4", "cc 12")]


def test_only_of_a_status_is_a_part_left_out() -> None:
    """What a user has named may look like what a driver says of how full it is."""
    said = "nfs on file.example:/export; mounted rw"
    assert fact.FILESYSTEM.compared(said, "id") == "mounted rw; nfs on file.example:/export"
    assert fact.DRIVER_STATUS.compared("Data file: /x; Base Device Size: 1", "id") == "Base Device Size: 1"
    assert fact.DRIVER_STATUS.compared("b: /run/kit-id-2/fs; a: /dev/loop7", "id") == "a: /dev/loop; b: /run/…/fs"


def test_no_reader_asks_for_a_fact_by_its_wording() -> None:
    found = []
    for path in sorted(Path(kit.__file__).parent.rglob("*.py")):
        if "facts" in path.read_text():
            tree = parsed(path)
            for node in (*tree.nodes(ast.Call), *tree.nodes(ast.Subscript), *tree.nodes(ast.Compare)):
                if _asks_by_wording(node):
                    found.append(f"{path}:{node.lineno}")
    assert found == []


@pytest.mark.parametrize(
    ("code", "caught"),
    [
        ("session.facts.get('kernel')", True),
        ("session.facts['kernel']", True),
        ("'kernel' in session.facts", True),
        ("session.facts[KERNEL.key]", False),
        ("request.options.get('kernel')", False),
    ],
)
def test_who_asks_by_wording_is_seen(code: str, caught: bool) -> None:
    assert _asks_by_wording(ast.parse(code, mode="eval").body) == caught


def _asks_by_wording(node: ast.expr) -> bool:
    match node:
        case ast.Call(ast.Attribute(value, "get"), [ast.Constant(str()), *_]):
            return _named_facts(value)
        case ast.Subscript(value, ast.Constant(str())):
            return _named_facts(value)
        case ast.Compare(ast.Constant(str()), [ast.In()], [value]):
            return _named_facts(value)
    return False


def _named_facts(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "facts"
