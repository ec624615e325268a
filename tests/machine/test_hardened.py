"""A hardened machine: no program runs in /run, /tmp, /var/tmp, /dev/shm and the user's home (CIS Debian Benchmark, 1.1;
Debian's initramfs mounts /run so)."""

from pathlib import Path

import pytest

from kit.arms.probe import probe_binary
from kit.core.paths import find_paths
from tests.machine.emulated import TRY, python_on

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured, pytest.mark.maps_users]

#: $1 a directory whose programs may run, or ''.
ENTER = """
for directory in /run /dev/shm /var/tmp; do mount -t tmpfs -o noexec,nosuid,nodev hard "$directory"; done
chmod 755 /run
mount --rbind /tmp /tmp; mount -o remount,bind,noexec,nosuid,nodev /tmp
[ -z "$1" ] || { mount --bind "$1" "$1"; mount -o remount,bind,exec,suid,dev "$1"; }
"""
SYSTEM = f"""
import os, subprocess, sys, time
daemon = subprocess.Popen(
    ["dockerd", "--data-root", sys.argv[1], "--exec-root=/run/d", "--host=unix:///run/d.sock", "--pidfile=/run/d.pid",
     "--bridge=none", "--iptables=false", "--storage-driver=overlay2", "--config-file", f"{{sys.argv[1]}}/d.json"],
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
try:
    while not os.path.exists("/run/d.sock") and daemon.poll() is None:
        time.sleep(0.05)
    subprocess.run([sys.executable, "-c", {TRY!r}, *sys.argv[2:]], check=True)
finally:
    daemon.terminate()
    daemon.wait()
"""


def tried(script: str, *words: str | Path, runs: Path | str = "", umask: int = 0o022) -> dict[str, list[str]]:
    """What a script says of each arm in such a mount namespace."""
    return python_on(ENTER, script, *words, before=[str(runs)], umask=umask, DOCKER_HOST="unix:///run/d.sock")


@pytest.mark.promise("faults", "Sessions run where the machine mounts `/run`, `/tmp` and homes noexec.")
def test_arms_of_every_kind_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit's own directories lie on such a mount, too: root's session mounts those with programs again."""
    monkeypatch.setenv("KIT_HOME", str(tmp_path))
    arms = (
        "bare@dir", "runtime:overlay2", "union:overlay", "runtime:podman/overlay", "layer:containerd/overlayfs",
        "build:overlay2", "layer:podman/overlay+userns=rootless", "layer:overlay2+runtime=runsc",
    )  # fmt: skip
    answers = tried(TRY, *arms)
    assert answers.pop("run") == ["True"]
    if "runsc" in answers[arms[-1]][1]:  # it is not installed, or not for this kernel
        del answers[arms[-1]]
    assert not {name: answer for name, answer in answers.items() if answer[0] != "True"}


def test_the_running_docker_sees_its_own_run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arms = [f"{placement}:system/overlay2" for placement in ("bind", "layer", "volume")]
    for name in ("data", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "data/d.json").write_text("{}")
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "home"))
    answers = tried(SYSTEM, tmp_path / "data", *arms, runs=tmp_path)
    assert [answers[name][0] for name in arms] == ["True"] * 3, answers
    answers = tried(SYSTEM, tmp_path / "data", arms[0], runs=tmp_path / "data")
    cache = find_paths().cache
    assert answers[arms[0]] == [
        "False", f"the running Docker can't run the kit's timer: {cache} is mounted noexec",
        "set KIT_HOME to a directory on another filesystem",
    ]  # fmt: skip
    assert probe_binary(cache).stat().st_mode & 0o777 == 0o755


@pytest.mark.promise("another user", "Whatever the umask is, others cannot write to what the kit makes.")
@pytest.mark.parametrize("umask", [0o000, 0o077], ids=oct)
def test_the_umask_decides_neither_who_may_write_nor_whom_an_arm_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    """Root of a container with mapped users runs the probe, which belongs to the machine's."""
    home = tmp_path / "new" / "home"
    monkeypatch.setenv("KIT_HOME", str(home))
    tmp_path.parent.chmod(0o711)
    tmp_path.chmod(0o711)
    arms = ("layer:overlay2+userns=remap", "host@dir")
    answers = tried(TRY, *arms, umask=umask)
    assert [answers[name][0] for name in arms] == ["True"] * 2, answers
    paths = [home.parent, home, *home.rglob("*")]
    assert not [path for path in paths if path.lstat().st_mode & 0o022 and not path.is_symlink()]
    modes = {name: (home / name).stat().st_mode & 0o777 for name in ("", "cache", "state", "data")}
    assert modes == {"": 0o755, "cache": 0o700, "state": 0o711, "data": 0o700}
