"""Other distributions: what their machines have by default and this one has not, one at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.host.cgroup.cgroup import hierarchies
from tests.machine.emulated import TRY, emulated, python_on

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured, pytest.mark.maps_users]

#: Fedora, Arch and Alpine install crun with Podman, and no runc. It refuses hybrids of cgroup v1 and v2.
ONLY_CRUN = "hide runc; ! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified"
FEDORA = 'ID=fedora\nPRETTY_NAME="Fedora Linux"\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "home"))
    tmp_path.parent.chmod(0o711)
    tmp_path.chmod(0o711)
    return tmp_path / "home"


def test_every_engine_starts_containers_by_crun_where_there_is_no_runc() -> None:
    arms = (
        "layer:podman/overlay", "runtime:overlay2", "layer:containerd/overlayfs", "build:overlay2+buildkit",
        "layer:overlay2+runtime=runc",
    )  # fmt: skip
    answers = python_on(ONLY_CRUN, TRY, *arms)
    *works, named = (answers[arm] for arm in arms)
    assert [answer[0] for answer in works] == ["True"] * 4, answers
    assert named[:2] == ["False", "runc is not installed"]


def test_without_runc_and_crun_an_engine_says_what_is_missing() -> None:
    answers = python_on("hide runc crun", TRY, "layer:podman/overlay", "layer:overlay2")
    for arm in ("layer:podman/overlay", "layer:overlay2"):
        assert answers[arm][:2] == ["False", "runc is not installed"]


@pytest.mark.parametrize("manager", ["dnf", "zypper", "apk", "pacman"])
def test_fixes_name_the_package_manager_that_the_machine_has(manager: str, tmp_path: Path) -> None:
    """The manager is a program of this name: fixes depend on which one exists."""
    (tmp_path / "os").write_text(FEDORA)
    (tmp_path / manager).symlink_to("/bin/true")
    change = 'hide mkfs.xfs apt-get; mount --bind "$1" "$(readlink -f /etc/os-release)"'
    program = Path(__file__).parents[2] / ".ci/install-packages"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": sys.executable}
    argv = emulated(change, program, "compare", before=[str(tmp_path / "os")])
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    first, *missing = done.stdout.splitlines()
    assert (done.returncode, first) == (0, "no apt-get here: install by hand what is missing"), done.stderr
    (fix,) = [line.partition("; fix: ")[2] for line in missing if "mkfs.xfs" in line]
    assert manager in fix and "apt" not in fix
    script = "from kit.host.command import *\ntry: require('mkfs.xfs')\nexcept Exception as error: print(error.hint)"
    assert [*python_on(change, script, before=[str(tmp_path / "os")], PATH=environment["PATH"])] == [fix]


@pytest.mark.parametrize("mounted_again", [False, True])
def test_in_a_cgroup_namespace(tmp_path: Path, mounted_again: bool) -> None:
    """Of another group than the root: hierarchies that were mounted before show groups by names that only the machine
    can read. Mounted again, they begin at the namespace's own group."""
    group = f"kit-test-{os.getpid()}"
    mounts = [path for name, path in hierarchies().items() if name in ("unified", "cpuacct", "memory")]
    kinds = {path: "cgroup2" if path.name in ("unified", "cgroup") else f"cgroup -o {path.name}" for path in mounts}
    again = "".join(f"umount {path}; mount -t {kind} kit-test {path}; " for path, kind in kinds.items())
    join = "".join(f"mkdir {path}/{group}; echo 0 >{path}/{group}/cgroup.procs; " for path in mounts)
    inner = ["unshare", "--cgroup", "--mount", "sh", "-euc", f'{again if mounted_again else ""}exec "$@"', "sh"]
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    arms = ("bare@dir", "layer:overlay2+memory=512m")
    try:
        done = subprocess.run(
            ["sh", "-euc", f'{join}exec "$@"', "sh", *inner, sys.executable, "-c", TRY, *arms],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        left = [path / group for path in mounts]
        for path in left:
            path.rmdir()
    if mounted_again:
        assert [line.split("\t")[1] for line in done.stdout.splitlines()] == ["True"] * 3, done.stdout + done.stderr
    else:
        *_, error, fix = done.stderr.strip().splitlines()
        assert "shows control groups outside of the kit's cgroup namespace" in error
        assert "mount the hierarchy again" in fix and "--cgroupns=host" in fix
