"""Fetched inputs that another machine has are taken from its cache, and not where it lies."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.host.command import run
from kit.host.remote_cache import VARIABLE
from kit.model.scenario import Input
from kit.session.inputs.input_cache import InputCache, PreparedInput
from tests.peer import shared


def source(directory: Path, text: str) -> Path:
    """With what archives hold in more than one way."""
    made = directory / "made"
    (made / "sub").mkdir(parents=True)
    (made / "sub" / ("long" * 40)).write_text(text)
    (made / "out.o").write_text("left out")
    os.link(made / "sub" / ("long" * 40), made / "again")
    (made / "link").symlink_to("again")
    with (made / "sparse").open("wb") as file:
        file.truncate(1 << 16)
    os.utime(made / "again", ns=(10**18, 10**18 + 7))
    return made


def listed(path: Path) -> str:
    if path.is_dir():
        return run(["find", path, "-mindepth", "1", "-printf", "%P %y %m %l %s %n %T@\n"])
    return run(["tar", "--full-time", "-tvf", path])


def got(cache: Path, item: Input, text: str, tell: Callable[[str], None], peers: bool = True) -> PreparedInput:
    return InputCache(cache, tell, peers).get(item, "origin", lambda scratch: source(scratch, text))


@pytest.mark.parametrize("way", ["directory", "http"])
@pytest.mark.parametrize("into", ["tree", "inputs", "directory"])
def test_a_fetched_input_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, into: str, way: str) -> None:
    item = Input("src", into=into, exclude=("*.o",))
    theirs = got(tmp_path / "theirs", item, "x", pytest.fail)
    told: list[str] = []
    with shared(tmp_path / "theirs", way) as sandbox:
        monkeypatch.setenv(VARIABLE, sandbox)
        ours = got(tmp_path / "ours", item, "y", told.append)
        other = got(tmp_path / "other", item, "z", pytest.fail, peers=False)
    taken = way == "directory" or into != "directory"
    assert told == ([f"copying src from {sandbox}"] if taken else [])
    assert (ours.digest == theirs.digest) is taken and other.digest not in (ours.digest, theirs.digest)
    if taken:
        assert sorted(listed(ours.path).splitlines()) == sorted(listed(theirs.path).splitlines())
    assert len(list((tmp_path / "ours/inputs").iterdir())) == 2


@pytest.mark.parametrize("way", ["directory", "http"])
@pytest.mark.parametrize("lie", ["content", "digest", "an older kit's"])
def test_a_peer_that_lies_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str, way: str) -> None:
    item, told = Input("src"), list[str]()
    theirs = got(tmp_path / "theirs", item, "theirs", pytest.fail)
    facts = theirs.path.with_name(f"{theirs.path.name}.json")
    said = json.loads(facts.read_text())
    if lie == "content":
        theirs.path.write_bytes(theirs.path.read_bytes().replace(b"theirs", b"evil__"))
    elif lie == "digest":
        facts.write_text(json.dumps({**said, "digest": ""}))
    else:
        facts.write_text(json.dumps({key: value for key, value in said.items() if key != "size"}))
    with shared(tmp_path / "theirs", way) as sandbox:
        monkeypatch.setenv(VARIABLE, sandbox)
        ours = got(tmp_path / "ours", item, "ours", told.append)
    assert ours.digest != theirs.digest and b"evil__" not in ours.path.read_bytes()
    assert ("its size is not known" if lie.startswith("an older") else "is not what its facts say") in told[-1]
