"""One session at a time, and nothing of anybody's is touched for it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.core.errors import BusyError, MachineError
from kit.core.paths import find_paths
from kit.core.private import make_private
from kit.host.lock import machine_lock
from tests.waiting import wait_until

HOLD = """
import sys
from pathlib import Path
from kit.host.lock import machine_lock
directory, name, ended = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
with machine_lock(directory, name, True, print):
    with ended.open("a") as file:
        print(name, file=file)
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Stands for the directory that is locked."""
    directory = tmp_path / "parent" / "machine"
    directory.mkdir(parents=True)
    return directory


@pytest.fixture
def start(machine: Path, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start a process that waits for the machine; returns when it holds it, or is in the kernel's queue."""
    started = []

    def begin(name: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", HOLD, machine, name, tmp_path / "served"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert process.stdout
        if process.stdout.readline() != "held\n":
            wait_until(lambda: bool(re.search(rf"-> FLOCK .* {process.pid} ", Path("/proc/locks").read_text())))
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_an_error_names_the_holder_and_the_lock_can_be_taken_again(machine: Path) -> None:
    refused = pytest.raises(BusyError, match=rf"session first one \(process {os.getpid()}, since \d\d:\d\d:\d\d\) is")
    with machine_lock(machine, "first one"), refused, machine_lock(machine, "other"):
        pytest.fail("two held it at once")
    with machine_lock(machine, "second"):
        pass


def test_all_who_wait_are_served_but_one_that_was_killed(
    start: Callable[[str], subprocess.Popen[str]], machine: Path, tmp_path: Path
) -> None:
    first = start("first")
    killed, *waiting = (start(name) for name in ("killed", "second", "third"))
    killed.send_signal(signal.SIGKILL)
    with pytest.raises(BusyError, match="session first"), machine_lock(machine, "impatient"):
        pytest.fail("it did not wait")
    first.communicate("\n", timeout=60)
    for process in waiting:
        assert process.stdin
        process.stdin.write("\n")  # read by each as soon as it holds the machine
        process.stdin.flush()
    for process in waiting:
        process.wait(60)
    assert sorted((tmp_path / "served").read_text().split()) == ["first", "second", "third"]


def test_one_who_waits_is_served_though_sessions_end_and_begin(
    start: Callable[[str], subprocess.Popen[str]], machine: Path, tmp_path: Path
) -> None:
    """Between two sessions of a night there is time enough for the kernel to wake who waits."""
    with machine_lock(machine, "a night's first task"):
        process = start("waiting")

    def refused() -> bool:
        try:
            with machine_lock(machine, "a night's next task"):
                return False
        except BusyError:
            return True

    wait_until(refused)
    process.communicate("\n", timeout=60)
    assert (tmp_path / "served").read_text() == "waiting\n"


@pytest.mark.promise("another user", "The machine's lock changes nothing that lies in its way.")
def test_nothing_that_lies_in_the_way_is_followed_or_changed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("dear")
    victim.chmod(0o600)
    (tmp_path / "link").symlink_to(victim)
    os.link(victim, tmp_path / "hard")
    (tmp_path / "directory").symlink_to(tmp_path)
    for name in ("link", "hard", "directory"):
        with pytest.raises(MachineError, match=f"{name}, whose lock keeps"), machine_lock(tmp_path / name, "x"):
            pytest.fail("it was taken")
    assert victim.read_text() == "dear" and victim.stat().st_mode & 0o777 == 0o600


def test_the_lock_is_one_for_root_and_users_in_a_place_of_roots() -> None:
    info = find_paths().lock.stat()
    assert info.st_uid == 0 and info.st_mode & 0o004


def test_a_private_directory_is_ours_alone(tmp_path: Path) -> None:
    made = tmp_path / "new" / "private"
    make_private(made)
    assert made.stat().st_mode & 0o777 == 0o700
    made.chmod(0o755)
    make_private(made, 0o711)
    assert made.stat().st_mode & 0o777 == 0o755  # it may be no directory of the kit's: KIT_HOME=/var
    before = os.umask(0o077)
    try:
        make_private(tmp_path / "passable", 0o711)
    finally:
        os.umask(before)
    assert (tmp_path / "passable").stat().st_mode & 0o777 == 0o711
    made.chmod(0o777)
    with pytest.raises(MachineError, match=r"private: others may write to it\n  fix: .*XDG_RUNTIME_DIR"):
        make_private(made)
    (tmp_path / "link").symlink_to(made)
    with pytest.raises(MachineError, match="link: it is a link"):
        make_private(tmp_path / "link")
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="file: Not a directory"):
        make_private(tmp_path / "file")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory to another user")
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    os.chown(tmp_path / "theirs", 4321, 4321)
    with pytest.raises(MachineError, match="theirs: it belongs to user 4321, not to root"):
        make_private(tmp_path / "theirs")


def test_without_a_runtime_directory_the_fallback_is_checked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below a directory of another user even one of our own could be replaced."""
    monkeypatch.setenv("KIT_HOME", "/nonexistent")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert find_paths().run == Path("/tmp/kit-4321")
