"""The mount table: names with blanks and letters of any alphabet, and what hangs on reading them right."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.host.mounts import mount_of, parse_mounts

TABLE = rb"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 /../.. /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct
31 22 7:0 /a\040b /mnt/two\040words\011tab\012line\134slash\043 rw - btrfs  rw,subvol=/a\040b
32 22 7:1 / """


def test_names_are_decoded_on_bytes() -> None:
    first, cgroup, odd, words = parse_mounts(TABLE.lstrip() + "/mnt/größe-日本\\040x rw - xfs /dev/b rw\n".encode())
    assert (first.path, first.type, first.source, first.options) == (Path("/"), "ext4", "/dev/vda", "rw,relatime,rw")
    assert (cgroup.root, cgroup.shared) == ("/../..", "rw,cpu,cpuacct")
    assert odd.path == Path("/mnt/two words\ttab\nline\\slash#")
    assert (odd.root, odd.source, odd.shared) == ("/a b", "", "rw,subvol=/a b")
    assert words.path == Path("/mnt/größe-日本 x")


def in_mount_namespace(script: str, *words: str | Path) -> str:
    """What a program prints that may mount what it likes, seen by nobody else."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]  # whose root may not read another's home
    enter = ["unshare", *user, "--mount", "--propagation", "private", "--"]
    if subprocess.run([*enter, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs mount namespaces: unshare fails here")
    code = [sys.executable, "-c", script, *map(str, words)]
    done = subprocess.run([*enter, *code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["plain", "two words", "größe 日本", "back\\slash"])
def test_nothing_is_removed_behind_a_mount(tmp_path: Path, name: str) -> None:
    kept = tmp_path / "of the user"
    kept.mkdir()
    (kept / "letter").write_text("dear")
    (tmp_path / name / "in it").mkdir(parents=True)
    script = """
import subprocess, sys
from kit.core.errors import RunError
from kit.host.recovery.cleanup import PATH
subprocess.run(["mount", "--bind", sys.argv[1], sys.argv[2] + "/in it"], check=True)
try:
    PATH.undo(sys.argv[2])
except RunError as error:
    print(error.message)
"""
    said = in_mount_namespace(script, kept, tmp_path / name)
    assert said == f"something is mounted at {tmp_path / name}/in it; it is not removed\n"
    assert (kept / "letter").read_text() == "dear"


def test_a_path_is_on_the_mount_that_it_is_on(tmp_path: Path) -> None:
    point = tmp_path / "größe 日本"
    point.mkdir()
    script = """
import subprocess, sys
from pathlib import Path
from kit.host.mounts import mount_of
subprocess.run(["mount", "-t", "tmpfs", "x y", sys.argv[1]], check=True)
mount = mount_of(Path(sys.argv[1]) / "below")
print(mount.type, mount.source, mount.path)
"""
    assert in_mount_namespace(script, point) == f"tmpfs x y {point}\n"
    assert mount_of(point).path != point


def test_a_directory_of_another_process_has_a_path_here(tmp_path: Path) -> None:
    """A bind mount that only the other sees; then a filesystem that only the other has mounted."""
    (tmp_path / "mine/deep").mkdir(parents=True)
    (tmp_path / "theirs").mkdir()
    script = """
import subprocess, sys
from pathlib import Path
from kit.core.errors import RunError
from kit.host.mounts import own_path
mine, theirs = map(Path, sys.argv[1:])
mounts = f"mount --bind {mine} {theirs}; echo; read x; mount -t tmpfs none {theirs}; mkdir {theirs}/deep; echo; read x"
words = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-euc", mounts]
with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
    other.stdout.readline()
    print(own_path(theirs / "deep", other.pid))
    print(file=other.stdin, flush=True)
    other.stdout.readline()
    try:
        own_path(theirs / "deep", other.pid)
    except RunError as error:
        print(error.message.replace(str(other.pid), "PID"))
    other.stdin.close()
"""
    said = in_mount_namespace(script, tmp_path / "mine", tmp_path / "theirs")
    assert said == f"{tmp_path}/mine/deep\n{tmp_path}/theirs/deep of process PID lies on no mount of this session\n"
