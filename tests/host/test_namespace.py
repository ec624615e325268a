"""A directory of the host is covered for one session alone, whatever others do with it."""

import subprocess
import sys
from pathlib import Path

import pytest

ENTER = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", "--", sys.executable, "-c"]
COVER = """
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from kit.host.namespace import covered
path = Path(sys.argv[1])
said = []
journal = SimpleNamespace(
    acquire=lambda kind, value: said.append("acquired"), release=lambda kind, value: said.append("released")
)
"""
HOLD = f"""{COVER}
with covered(path, journal):
    (path / "socket").touch()
    print(*said, flush=True)
    sys.stdin.readline()
    print((path / "socket").exists(), flush=True)
"""


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    if subprocess.run([*ENTER, ""], capture_output=True, check=False).returncode:
        pytest.skip("needs user namespaces: unshare --map-root-user fails here")


def hold(path: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen([*ENTER, HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line(session: "subprocess.Popen[str]", says: str) -> str:
    assert session.stdin and session.stdout
    if says:
        session.stdin.write(says)
        session.stdin.flush()
    return session.stdout.readline().strip()


@pytest.mark.promise("faults", "A directory that sessions share goes with the last one.")
def test_a_directory_that_two_sessions_cover_goes_with_the_last(tmp_path: Path) -> None:
    """To remove it would unmount what the other has mounted on it."""
    path = tmp_path / "containerd"
    with hold(path) as first, hold(path) as second:
        assert [line(session, "") for session in (first, second)] == ["acquired", "acquired"]
        assert line(first, "\n") == "True"
        first.wait()
        assert path.is_dir()
        assert line(second, "\n") == "True"
    assert not path.exists()


def test_a_directory_of_the_host_stays(tmp_path: Path) -> None:
    path = tmp_path / "containerd"
    path.mkdir()
    with hold(path) as session:
        assert line(session, "") == ""
        assert line(session, "\n") == "True"
    assert list(tmp_path.iterdir()) == [path] and not list(path.iterdir())


def test_a_directory_that_was_removed_where_it_was_mounted_from_is_covered(tmp_path: Path) -> None:
    for name in ("of others", "containerd"):
        (tmp_path / name).mkdir()
    script = f"""
import os, subprocess
{COVER}
other = path.with_name("of others")
subprocess.run(["mount", "--bind", other, path], check=True)
other.rmdir()
with covered(path, journal):
    (path / "socket").touch()
print(os.listdir(path))
"""
    done = subprocess.run([*ENTER, script, tmp_path / "containerd"], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.promise("faults", "Sessions run where the machine mounts `/run`, `/tmp` and homes noexec.")
def test_programs_run_in_a_directory_that_the_machine_mounts_without(tmp_path: Path) -> None:
    """Debian's initramfs mounts /run so, hardened machines also /tmp and /home."""
    script = """
import os, subprocess, sys
from pathlib import Path
from kit.core.errors import MachineError
from kit.host.mounts import check_runs_programs, restrictions
from kit.host.namespace import allow_programs
path = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec,nosuid,nodev,noatime", "hard", path], check=True)
(path / "kit").mkdir()
(path / "kit" / "program").write_text("#!/bin/sh\\n")
(path / "kit" / "program").chmod(0o755)
try:
    check_runs_programs(path / "kit", "it", "use another")
except MachineError as error:
    print(error)
print(*restrictions(path / "kit"), subprocess.run(["sh", "-c", path / "kit/program"], stderr=-3).returncode)
print(allow_programs(path / "kit"), allow_programs(path / "kit"), *restrictions(path / "kit"))
check_runs_programs(path / "kit", "it", "use another")
print(subprocess.run([path / "kit/program"]).returncode, "noatime" in Path("/proc/self/mountinfo").read_text())
print(*restrictions(path))
"""
    done = subprocess.run([*ENTER, script, tmp_path], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        f"no program runs in it: {tmp_path} is mounted noexec",
        "  fix: use another",
        "noexec nosuid nodev 126",
        "True False",
        "0 True",
        "noexec nosuid nodev",
    ], done.stdout + done.stderr
