"""Podman without root: an ordinary user, made up in a mount namespace of the test's own."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import kit
from kit.core.exit_code import NOT_RUN
from tests.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured, pytest.mark.maps_users]

USER = 4321
#: $1 the user's directory; then the command. Users and their ranges are seen by what it starts alone. As on Debian, a
#: user has a group and umask 002, and the directory of sockets is mounted noexec.
ENTER = f"""
for file in passwd group; do cp /etc/$file "$1/$file"; done
echo "kituser:x:{USER}:{USER}::$1/home:/bin/sh" >> "$1/passwd"
echo "kituser:x:{USER}:" >> "$1/group"
for file in subuid subgid; do
    echo "kituser:200000:65536" > "$1/$file"
done
for file in passwd group subuid subgid; do mount --bind "$1/$file" /etc/$file; done
mkdir "$1/home" "$1/run"; mount -t tmpfs -o mode=700,noexec,nosuid,nodev kit "$1/run"
mkdir -m 775 "$1/home/kit"; chown {USER}:{USER} "$1" "$1/home" "$1/home/kit" "$1/run"; cd "$1/home"
shift; umask 002
exec setpriv --reuid {USER} --regid {USER} --init-groups -- "$@"
"""


def reachable(path: Path) -> bool:
    """Whether any user may go there."""
    return all(part.stat().st_mode & 0o005 == 0o005 for part in (path, *path.parents) if part.is_dir())


@pytest.fixture
def sandbox() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="k-", dir="/tmp"))
    directory.chmod(0o755)
    made = [path for path in (Path("/etc/subuid"), Path("/etc/subgid")) if not path.exists()]
    for path in made:
        path.touch()  # to have something to mount over
    yield directory
    shutil.rmtree(directory)
    for path in made:
        path.unlink()


def processes() -> list[str]:
    """Of the user and of the numbers that it has been given; those that only wait to be reaped are gone."""
    found = []
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            status = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        uid = int(status["Uid"].split()[0])
        if (uid == USER or 200000 <= uid < 265536) and "zombie" not in status["State"]:
            found.append(status["Name"].strip())
    return found


def test_rootless_podman_measures_and_leaves_nothing(sandbox: Path, tiny: Path) -> None:
    python = Path(sys.executable).resolve()
    if not reachable(python.parent):
        python = Path("/usr/bin/python3").resolve()
    libraries = [Path(kit.__file__).parent.parent, *(Path(item) for item in sys.path if "site-packages" in item)]
    if python.name != f"python3.{sys.version_info[1]}" or not all(map(reachable, libraries)):
        pytest.skip("needs a Python and packages that an ordinary user may read")
    if not shutil.which("newuidmap"):
        pytest.skip("needs newuidmap (package uidmap)")
    shutil.copy(tiny, sandbox / "tiny.tar")
    with tarfile.open(sandbox / "tiny.tar", "a") as tar:
        for name in ("./dev/null", "./srv/null"):
            node = tarfile.TarInfo(name)
            node.type, node.devmajor, node.devminor, node.mode = tarfile.CHRTYPE, 1, 3, 0o666
            tar.addfile(node)
    (sandbox / "tiny.tar").chmod(0o644)
    environment = {
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(sandbox / "home"),
        "KIT_HOME": str(sandbox / "home/kit"),
        "PYTHONPATH": ":".join(map(str, libraries)),
        "XDG_RUNTIME_DIR": str(sandbox / "run"),  # Podman wants its run directory to have a short name
    }
    arms = "host@dir,bind:podman/overlay@dir,layer:podman/overlay@dir,runtime:podman/overlay@dir,layer:overlay2@dir"
    words = [
        str(python), "-m", "kit", "compare", "--image", str(sandbox / "tiny.tar"), "--arms", arms,
        "--baseline", "host@dir", "--rounds", "2", "--cache", "cold", "--json", "out.json",
        "--", "sh", "-c", "echo x > f; echo kept",
    ]  # fmt: skip
    enter = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-euc", ENTER, "sh", str(sandbox), *words]
    done = subprocess.run(enter, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == NOT_RUN, done.stderr + done.stdout
    found = json.loads((sandbox / "home/out.json").read_text())
    assert {item["arm"] for item in found["session"]["not_run"]} == {"runtime:podman/overlay@dir", "layer:overlay2@dir"}
    assert found["session"]["facts"]["podman runs"] == "rootless"
    ran = {row["arm"] for row in found["samples"] if row["status"] == "ok"}
    assert ran == {"host@dir", "bind:podman/overlay@dir", "layer:podman/overlay@dir"}
    wait_until(lambda: not processes())
    left = {path.name for path in (sandbox / "home/kit/state").rglob("*")}
    assert left - {"machine-id"} == {"journal", "loops"}  # that of a machine whose system has none
    assert not [name for name in os.listdir(sandbox / "home") if name.startswith(".local")]
    for directory in ("kit/cache", "kit/cache/images", "kit/data", "kit/state"):
        assert (sandbox / "home" / directory).stat().st_mode & 0o022 == 0, directory
