"""Other distributions: what their machines have by default and this one has not, one at a time."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from kit.core.exit_code import DONE
from kit.host.cgroup.cgroup import hierarchies
from tests.leftovers import group_of_test
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


def test_nothing_large_lies_in_directories_of_memory(tiny: Path, tmp_path: Path, home: Path) -> None:
    """Fedora and Debian 13 have /tmp in memory, many machines /dev/shm with 64 MiB and /run with a tenth of memory."""
    shutil.copy(tiny, tmp_path / "large.tar")
    with tarfile.open(tmp_path / "large.tar", "a") as tar:
        large = tarfile.TarInfo("./large")
        large.size = 12 << 20
        tar.addfile(large, io.BytesIO(os.urandom(large.size)))
    change = "for path in /tmp /var/tmp /dev/shm /run; do mount -t tmpfs -o size=6m,mode=1777 small $path; done"
    words: list[str | Path] = [
        "--image", tmp_path / "large.tar", "--arms", "bare@dir,bind:podman/overlay@dir",
        "--rounds", "1", "--copies", "2", "--wait", "--json", tmp_path / "out.json",
        "--", "dd", "if=/dev/zero", "bs=1M", "count=8",
    ]  # fmt: skip
    # tmp_path itself lies in /tmp: it is reached by a second name.
    mounted = f'mount --bind "$1" /mnt; {change}; mkdir -p "$1"; mount --bind /mnt "$1"; umount /mnt'
    argv = emulated(mounted, sys.executable, "-m", "kit", "compare", *words, before=[str(tmp_path)])
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == DONE, done.stdout + done.stderr
    rows = json.loads((tmp_path / "out.json").read_text())["samples"]
    assert {row["status"] for row in rows} == {"ok"}, done.stdout


@pytest.mark.parametrize("manager", ["dnf", "zypper", "apk", "pacman"])
def test_fixes_name_the_package_manager_that_the_machine_has(manager: str, tmp_path: Path) -> None:
    """The manager is a program of this name: fixes depend on which one exists. A fresh clone has Python alone, without
    the kit's packages."""
    (tmp_path / "os").write_text(FEDORA)
    (tmp_path / manager).symlink_to("/bin/true")
    bare_python = tmp_path / "bare-python"
    bare_python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare_python.chmod(0o755)
    change = 'hide mkfs.xfs apt-get; mount --bind "$1" "$(readlink -f /etc/os-release)"'
    program = Path(__file__).parents[2] / ".ci/install-packages"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": str(bare_python)}
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
    group = group_of_test("namespace")
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


def test_a_shell_of_another_kind(tiny: Path, tmp_path: Path) -> None:
    """No system directories in PATH, as Debian's ordinary users and their sudo may have it; a locale with another
    decimal sign; few descriptors; no HOME; an unknown time zone; a host name that nothing resolves; swap."""
    (tmp_path / "swaps").write_text("Filename Type Size Used Priority\n/dev/zram0 partition 1048572 20480 100\n")
    change = """
    mount --bind "$1" /proc/swaps; [ ! -e /etc/localtime ] || mount --bind /dev/null /etc/localtime
    hostname nothing-resolves-this; ulimit -n 256; unset HOME XDG_RUNTIME_DIR
    """
    words: list[str | Path] = [
        "compare", "--image", tiny, "--arms", "bare@dir,layer:overlay2", "--rounds", "1",
        "--wait", "--json", tmp_path / "out.json", "--", "true",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": "/usr/bin:/bin"}
    environment |= {"LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8", "TZ": "Nowhere/None"}
    argv = [
        "unshare",
        "--uts",
        *emulated(change, sys.executable, "-m", "kit", *words, before=[str(tmp_path / "swaps")]),
    ]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == DONE, done.stdout + done.stderr
    document = json.loads((tmp_path / "out.json").read_text())
    assert {row["status"] for row in document["samples"]} == {"ok"}, done.stdout
