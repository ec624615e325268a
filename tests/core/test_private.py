"""What lies in the way of the kit's directories is neither changed nor obeyed."""

from __future__ import annotations

import grp
import os
import pwd
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.arms.filesystem.plain import trusted_directory
from kit.core.errors import MachineError, UsageError
from kit.core.paths import find_paths
from kit.core.private import make_directory, make_private, plain_umask
from kit.core.trusted import check_place
from kit.model.session import RUNNING, Request, Session
from kit.store import Outbox, open_store
from tests.command_line import Kit
from tests.stores import new_store

UMASKS = (0o000, 0o002, 0o022, 0o027, 0o077)
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


@pytest.mark.promise(
    "another user", "Another user cannot exchange the kit's data, cache and state, or a directory above them."
)
@pytest.mark.parametrize("name", NAMES)
def test_a_link_in_the_place_of_a_directory_is_refused_and_its_target_left_alone(
    name: str, home: Path, victim: Path, kit: Kit
) -> None:
    (home / name).symlink_to(victim)
    done = kit("sessions", KIT_HOME=str(home))
    assert done.returncode == 2 and f"can't use {home / name}: it is a link" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and modes(victim) == (0o755, 0o644)
    assert [path.name for path in victim.iterdir()] == ["passwd"]


@pytest.mark.promise(
    "another user", "Another user cannot exchange the kit's data, cache and state, or a directory above them."
)
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


@pytest.mark.promise(
    "another user", "Another user cannot exchange the kit's data, cache and state, or a directory above them."
)
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


@pytest.mark.promise(
    "another user", "Another user cannot exchange the kit's data, cache and state, or a directory above them."
)
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
    with pytest.raises(MachineError, match="a directory to which others may write, who could replace it"):
        find_paths()
    home.chmod(0o1777)
    find_paths()
    monkeypatch.setenv("KIT_HOME", str(home / "not" / "yet" / "made"))
    find_paths()
    assert not (home / "not").exists()


@pytest.mark.promise(
    "another user", "Another user cannot exchange the kit's data, cache and state, or a directory above them."
)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory to another user")
def test_nor_one_further_up_or_of_a_group(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may rename a directory above it puts another tree in its place."""
    deep = home / "a/b/c"
    deep.mkdir(parents=True)
    monkeypatch.setenv("KIT_HOME", str(deep))
    find_paths()
    for place in (home, home / "a", home / "a/b", deep):
        os.chown(place, 4321, 0)
        with pytest.raises(MachineError, match=f"{place} belongs to user 4321, who could replace it"):
            find_paths()
        os.chown(place, 0, 4321)
        place.chmod(0o775)
        with pytest.raises(
            MachineError, match=rf"{place} is a directory to which others .*\n.* run chmod g-w {place}, or"
        ):
            find_paths()
        place.chmod(0o1775)  # nobody else renames anything in it
        find_paths()
        os.chown(place, 0, 0)
        place.chmod(0o755)
    (home / "link").symlink_to(deep)
    monkeypatch.setenv("KIT_HOME", str(home / "link"))
    find_paths()
    os.chown(home / "link", 4321, 4321, follow_symlinks=False)
    with pytest.raises(MachineError, match=f"{home}/link belongs to user 4321, who could replace it"):
        find_paths()


@pytest.fixture(params=UMASKS, ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.promise("another user", "Whatever the umask is, others cannot write to what the kit makes.")
@pytest.mark.usefixtures("umask")
def test_a_directory_has_its_mode_whatever_the_umask_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for number, wanted in enumerate((0o700, 0o711, 0o755)):
        path = tmp_path / str(number) / "state" / "kit"
        make_private(path, wanted)
        make_private(path, 0o700)  # it exists, and keeps its mode
        assert [mode(directory) for directory in (path, path.parent, path.parent.parent)] == [wanted, 0o755, 0o755]
        check_place(path)
    assert make_directory(tmp_path / "a/b") and not make_directory(tmp_path / "a/b")
    trusted_directory(tmp_path / "dir/of/user")
    assert {mode(path) for path in (*tmp_path.glob("a/**"), *tmp_path.glob("dir/**"))} == {0o755}


def test_a_block_has_one_umask_and_gives_back_the_users(tmp_path: Path, umask: int) -> None:
    with pytest.raises(KeyError), plain_umask():
        (tmp_path / "file").touch()
        raise KeyError
    assert mode(tmp_path / "file") == 0o644
    (tmp_path / "other").touch()
    assert mode(tmp_path / "other") == 0o666 & ~umask


def passwd(name: str, uid: int, gid: int) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, gid, "", "/", "/bin/sh"))


@pytest.mark.promise(
    "another user", "A group is another user, unless it is the user's private one without an access control list."
)
@pytest.mark.parametrize(
    ("group", "members", "another", "private"),
    [
        ("me", [], 7, True),
        ("me", ["me"], 7, True),
        ("staff", [], 7, False),
        ("me", ["me", "you"], 7, False),
        ("me", [], None, False),  # the primary group of somebody else, too
    ],
)
def test_the_private_group_of_a_user_is_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, members: list[str], another: int | None, private: bool
) -> None:
    """Debian, Ubuntu and Fedora give every user one, and umask 002."""
    uid, gid = os.geteuid(), os.getegid()
    me, you = passwd("me", uid, gid), passwd("you", uid + 1, gid if another is None else another)
    monkeypatch.setattr(pwd, "getpwuid", {uid: me, uid + 1: you}.__getitem__)
    monkeypatch.setattr(pwd, "getpwall", lambda: [me, you])
    monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group((group, "x", number, members)))
    place = tmp_path / "place"
    place.mkdir()
    os.chown(place, uid, gid)
    place.chmod(0o775)
    if private:
        make_private(place)
        assert trusted_directory(place) == place
    else:
        with pytest.raises(MachineError, match=rf"others may write to it\n  fix: .* run chmod g-w {place}, or"):
            make_private(place)
        with pytest.raises(UsageError, match=f"run chmod g-w {place}, or"):
            trusted_directory(place)
    place.chmod(0o777)
    with pytest.raises(MachineError, match=f"run chmod {'' if private else 'g'}o-w {place}, or"):
        make_private(place)


@pytest.mark.promise(
    "another user", "A group is another user, unless it is the user's private one without an access control list."
)
def test_a_private_group_does_not_hide_an_access_control_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode shows for the group what other users may do."""
    uid, gid = os.geteuid(), os.getegid()
    monkeypatch.setattr(pwd, "getpwuid", lambda number: passwd("me", uid, gid))
    monkeypatch.setattr(pwd, "getpwall", list)
    monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group(("me", "x", number, [])))
    entries = ((0x01, 7, -1), (0x02, 7, 4321), (0x04, 5, -1), (0x10, 7, -1), (0x20, 5, -1))  # acl(5): user 4321 has 7
    acl = b"".join(struct.pack("<HHI", tag, rights, who & 0xFFFFFFFF) for tag, rights, who in entries)
    try:
        os.setxattr(tmp_path, "system.posix_acl_access", struct.pack("<I", 2) + acl)
    except OSError as error:
        pytest.skip(f"needs access control lists: {error.strerror}")
    assert mode(tmp_path) & 0o020
    with pytest.raises(MachineError, match="others may write to it"):
        make_private(tmp_path)
