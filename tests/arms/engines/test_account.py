"""The user of a session's own: its numbers, what the machine knows of it, and its socket."""

import os
import socket
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.arms.engines import account as module
from kit.arms.engines.account import RANGE, Account, choose, known
from kit.core.errors import MachineError, RunError
from kit.host.command import run
from kit.host.namespace import enter_private_mounts
from kit.host.recovery.journal import Journal

LOWEST, HIGHEST = module._LOWEST, module._HIGHEST  # what may be chosen


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, ...]:
    """Files of a machine of the test's own."""
    made = tuple(tmp_path / name for name in ("passwd", "group", "subuid", "subgid"))
    for file in made:
        file.write_text("somebody:x:1:2\n" if file.name in ("passwd", "group") else "")
    monkeypatch.setattr(module, "FILES", made)
    return made


def test_nobody_else_has_a_number_of_it_or_may_take_one(files: tuple[Path, ...]) -> None:
    """Neither the numbers that useradd, directories and systemd give out, nor the range of another user."""
    size = len(Account(LOWEST).numbers)
    assert size == 1025 * RANGE
    files[2].write_text(f"broken\nuser:{LOWEST}:{RANGE}\n")
    files[3].write_text(f"1000:{LOWEST + RANGE + size}:{HIGHEST - LOWEST}\n")
    assert choose() == Account(LOWEST + RANGE)
    assert set(module._used()) >= {range(number, number + 1) for number in (os.getuid(), os.getgid())}


def test_sessions_have_different_users(files: tuple[Path, ...]) -> None:
    assert len({choose() for _ in range(20)}) > 1
    user = module.SessionUser()
    assert user.account() is user.account()


def test_a_machine_without_free_numbers_is_an_error(files: tuple[Path, ...]) -> None:
    files[2].write_text(f"user:{LOWEST}:{HIGHEST - LOWEST}\n")
    with pytest.raises(MachineError, match=f"have all numbers from {LOWEST} to {HIGHEST - 1}"):
        choose()


@pytest.fixture
def given(tmp_path: Path) -> tuple[Account, Path, Path]:
    """This process's user as the session's; its directory, and one of root's."""
    for name in ("theirs", "ours"):
        (tmp_path / name).mkdir()
    return Account(os.getuid()), tmp_path / "theirs", tmp_path / "ours"


def test_a_socket_has_a_name_that_its_user_can_not_lead_elsewhere(given: tuple[Account, Path, Path]) -> None:
    account, theirs, ours = given
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(str(theirs / "s"))
        listener.listen()
        account.hand_over(theirs / "s", ours / "s")
        (theirs / "s").unlink()
        (theirs / "s").symlink_to("/etc/passwd")
        client.connect(str(ours / "s"))


@pytest.mark.parametrize("kind", ["link", "file", "another user's"])
def test_what_is_not_the_socket_of_that_user_is_refused(given: tuple[Account, Path, Path], kind: str) -> None:
    account, theirs, ours = given
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(theirs / "real"))
        if kind == "link":
            (theirs / "s").symlink_to("real")
        elif kind == "file":
            (theirs / "s").touch()
        else:
            (theirs / "real").rename(theirs / "s")
            account = Account(account.number + 1)
        with pytest.raises(RunError, match="is not the daemon's socket"):
            account.hand_over(theirs / "s", ours / "s")
    assert not list(ours.iterdir())


def in_private_mounts(act: Callable[[], None]) -> None:
    """Run it in a process with a mount namespace of its own, and an empty /run."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            enter_private_mounts()
            run(["mount", "-t", "tmpfs", "kit-test", "/run"])
            act()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_file_of_the_machine_may_be_replaced_meanwhile(files: tuple[Path, ...], tmp_path: Path) -> None:
    """useradd(8) renames a new file over the old one: in other mount namespaces the kernel then removes the mount."""
    account, machine = Account(LOWEST), f"--mount=/proc/{os.getpid()}/ns/mnt"

    def act() -> None:
        with known(account, tmp_path / "copies", Journal(tmp_path / "journal" / "x.jsonl", {})):
            assert account.name in files[0].read_text() and "somebody" in files[0].read_text()
            (tmp_path / "new").write_text("new\n")
            run(["nsenter", machine, "mv", tmp_path / "new", files[0]])
            assert files[0].read_text() == "new\n" and account.name in files[1].read_text()
        assert account.name not in files[1].read_text()

    in_private_mounts(act)


@pytest.mark.machine
@pytest.mark.unmeasured
def test_a_cache_of_names_does_not_hide_the_user(files: tuple[Path, ...], tmp_path: Path) -> None:
    """Programs ask nscd(8) first, which sees the machine's files: its socket is hidden from the session's."""

    def act() -> None:
        cache = Path("/run/nscd/socket")
        cache.parent.mkdir()
        cache.touch()
        with known(Account(LOWEST), tmp_path / "copies", Journal(tmp_path / "journal" / "x.jsonl", {})):
            assert not cache.exists()
        assert cache.exists()

    in_private_mounts(act)
