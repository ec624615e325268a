"""Guest kernels in the cache, and which sessions take one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kit.core.errors import MachineError, UnavailableError, UsageError
from kit.extra.guest import Machine, Tools, make_machine
from kit.extra.guest.kernel_cache import KernelCache
from kit.extra.guest.session_kernel import build_kernel, kernel_ahead, with_kernel
from kit.model.arm import parse_arm
from kit.model.session import Request, Session


def keep(cache: Path, machine: str, created: float, release: str, recipe: str = "aufs") -> Path:
    """A kernel as a build leaves it."""
    directory = cache / "kernels" / f"{recipe}-{machine}-{created:.0f}"
    directory.mkdir(parents=True)
    (directory / "kernel").write_bytes(b"\x7fELF")
    facts = {"recipe": recipe, "machine": machine, "release": release, "origin": "git:x", "created": created}
    (directory / "kernel.json").write_text(json.dumps({**facts, "seconds": 600.0}))
    return directory


def test_the_newest_for_a_machine_is_found(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    assert cache.list() == () and cache.find("aufs", "uml") is None
    for created, machine, release in (
        (1.0, "uml", "6.1.1-kit-a"),
        (3.0, "qemu", "6.1.3-kit-c"),
        (2.0, "uml", "6.1.2-kit-b"),
    ):
        keep(tmp_path, machine, created, release)
    keep(tmp_path, "uml", 9.0, "5.4-kit-d", recipe="other")
    (tmp_path / "kernels/.new-killed").mkdir()
    assert [item.release for item in cache.list()] == ["5.4-kit-d", "6.1.3-kit-c", "6.1.2-kit-b", "6.1.1-kit-a"]
    for release, expected in (("", "6.1.2-kit-b"), ("6.1.1-kit-a", "6.1.1-kit-a"), ("6.1.0-kit-z", "6.1.2-kit-b")):
        found = cache.find("aufs", "uml", release)
        assert found and (found.release, found.size) == (expected, 4)


def test_those_of_a_recipe_are_removed(tmp_path: Path) -> None:
    gone, kept = keep(tmp_path, "uml", 1.0, "a"), keep(tmp_path, "uml", 2.0, "b", recipe="other")
    assert [item.release for item in KernelCache(tmp_path).remove("aufs")] == ["a"]
    assert not gone.exists() and kept.exists()
    with pytest.raises(UsageError, match="no kernel aufs is built"):
        KernelCache(tmp_path).remove("aufs")


def with_built(kind: str, session: Session, tools: Tools) -> Machine:
    return with_kernel(make_machine(kind, tools, None, None), session, [parse_arm(arm) for arm in session.arms], tools)


def guest_session(*arms: str, **facts: str) -> Session:
    return Session("id", 1.0, "0", "t", "running", Request(arms=arms, guest="uml"), arms, (), 7, facts)


def test_a_session_with_such_a_driver_takes_what_is_built(tmp_path: Path) -> None:
    keep(tmp_path, "uml", 1.0, "6.1.1-kit-a")
    keep(tmp_path, "uml", 2.0, "6.1.1-kit-b")
    told: list[str] = []
    tools = Tools(tmp_path, told.append)
    taken = with_built("uml", guest_session("bare", "layer:docker@20.10/aufs"), tools)
    assert taken.modules() is None  # all is built in; the kit's usual one has modules
    with_built("uml", guest_session("layer:aufs", kernel="6.1.1-kit-a #1 Sun Nov 22"), tools)  # resumed
    assert told == [f"the guest's kernel is 6.1.1-kit-{letter}, the kit's aufs" for letter in "ba"]


@pytest.mark.parametrize(("arm", "kernel"), [("layer:overlay2", ""), ("layer:aufs", "/boot/linux")])
def test_others_keep_the_kernel_that_they_have(arm: str, kernel: str, tmp_path: Path) -> None:
    keep(tmp_path, "uml", 1.0, "6.1.1-kit-a")
    session = guest_session("bare", arm)
    session = replace(session, request=replace(session.request, kernel=kernel))
    tools = Tools(tmp_path, pytest.fail)
    machine = make_machine("uml", tools, None, None)
    assert with_kernel(machine, session, [parse_arm(arm)], tools) is machine


def test_a_build_that_begins_unasked_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tmp_path, "qemu", 1.0, "of another machine")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    told: list[str] = []
    with pytest.raises(MachineError, match="needs root"):
        with_built("uml", guest_session("layer:aufs"), Tools(tmp_path, told.append))
    assert "13 min of CPU time" in told[0] and "kit kernel build aufs --for uml" in told[1]


def test_pending_builds_are_listed_for_each_machine(tmp_path: Path) -> None:
    arms = [parse_arm("bare"), parse_arm("layer:aufs")]
    keep(tmp_path, "uml", 1.0, "6.1.1-kit-a")
    built, missing, mend = kernel_ahead(arms, ("uml", "qemu"), tmp_path)
    assert built == "the guest's kernel for uml: 6.1.1-kit-a, the kit's aufs"
    assert "a guest kernel for qemu that is not built" in missing and "20 min of CPU time" in missing
    assert mend.strip() == "to do it before: kit kernel build aufs --for qemu"
    assert kernel_ahead(arms[:1], ("uml", "qemu"), tmp_path) == []


def test_where_it_can_not_be_built_the_others_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*words: object) -> None:
        raise UnavailableError("no way there", "kit kernel build aufs --source DIRECTORY")

    monkeypatch.setattr("kit.extra.guest.session_kernel.build_kernel", unreachable)
    told: list[str] = []
    tools = Tools(tmp_path, told.append)
    machine = make_machine("uml", tools, None, None)
    assert with_kernel(machine, guest_session("bare"), [parse_arm("layer:aufs")], tools) is machine
    assert told[2] == "no way there; aufs will not run. kit kernel build aufs --source DIRECTORY"


def test_patches_that_can_not_be_had_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(MachineError) as caught:
        build_kernel("aufs", "uml", f"git:file://{tmp_path}/nosuch#aufs6.1", tmp_path, lambda text: None)
    assert "the patches of the kernel aufs can't be fetched" in caught.value.message
    assert "kit kernel build aufs --for uml --source" in caught.value.hint
