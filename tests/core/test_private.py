"""What lies in the way of the kit's directories is neither changed nor obeyed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.core.errors import MachineError, UsageError
from kit.core.paths import find_paths
from kit.model.session import RUNNING, Request, Session
from kit.store import Outbox, open_store
from tests.command_line import Kit
from tests.stores import new_store

NAMES = ("data", "cache", "state")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home"
    made.mkdir(mode=0o755)
    monkeypatch.setenv("KIT_HOME", str(made))
    return made


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    made = tmp_path / "etc"
    made.mkdir()
    (made / "passwd").write_text("dear")
    made.chmod(0o755)
    (made / "passwd").chmod(0o644)
    return made


def modes(victim: Path) -> tuple[int, int]:
    return victim.stat().st_mode & 0o777, (victim / "passwd").stat().st_mode & 0o777


@pytest.mark.parametrize("name", NAMES)
def test_a_link_in_the_place_of_a_directory_is_refused_and_its_target_left_alone(
    name: str, home: Path, victim: Path, kit: Kit
) -> None:
    (home / name).symlink_to(victim)
    done = kit("sessions", KIT_HOME=str(home))
    assert done.returncode == 2 and f"can't use {home / name}: it is a link" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and modes(victim) == (0o755, 0o644)
    assert [path.name for path in victim.iterdir()] == ["passwd"]


def test_nothing_below_them_is_a_way_out(home: Path, victim: Path) -> None:
    (home / "data").mkdir(mode=0o700)
    (home / "data" / "kit.db").symlink_to(victim / "passwd")
    with pytest.raises(UsageError, match="file is not a database"):
        open_store("", home / "data" / "kit.db")
    (home / "data" / "outbox").symlink_to(victim)
    session = Session("a", 1.0, "0", "t", RUNNING, Request(), (), (), 1)
    with Outbox(session, new_store(home / "mine.db"), home / "data", print):
        assert [path.name for path in victim.iterdir()] == ["passwd"]
    assert modes(victim) == (0o755, 0o644) and (victim / "passwd").read_text() == "dear"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory to another user")
@pytest.mark.parametrize("name", NAMES)
def test_a_directory_of_somebody_else_is_not_obeyed(name: str, home: Path) -> None:
    """A program in its cache would be run."""
    (home / name / "probe").mkdir(parents=True)
    os.chown(home / name, 4321, 4321)
    with pytest.raises(MachineError, match=f"{name}: it belongs to user 4321, not to root"):
        find_paths()
    os.chown(home / name, 0, 0)
    (home / name).chmod(0o777)
    with pytest.raises(MachineError, match=f"{name}: others may write to it"):
        find_paths()
    (home / name).chmod(0o755)
    assert find_paths().cache == home / "cache"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory to another user")
def test_nor_is_one_that_somebody_else_could_replace(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(home, 4321, 4321)
    for made in (False, True):
        if made:
            (home / "cache").mkdir()
        with pytest.raises(MachineError, match=f"{home} belongs to user 4321, who could replace it"):
            find_paths()
    os.chown(home, 0, 0)
    home.chmod(0o777)
    with pytest.raises(MachineError, match="everybody may write to"):
        find_paths()
    home.chmod(0o1777)
    find_paths()
    monkeypatch.setenv("KIT_HOME", str(home / "not" / "yet" / "made"))
    find_paths()
    assert not (home / "not").exists()
