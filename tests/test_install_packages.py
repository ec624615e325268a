"""What make installs: a real apt, with an archive that lacks what a release of Debian has dropped."""

from __future__ import annotations

import fcntl
import re
import subprocess
from pathlib import Path

import pytest

from tests.apt import Debian, make_debian

PROGRAM = Path(__file__).parents[1] / ".ci/install-packages"
#: Debian 12's, 13's, and the rest of both.
OLD = ("docker.io", "unionfs-fuse")
NEW = ("docker.io", "docker-cli", "docker-buildx")
ALWAYS = (
    "containerd", "runc", "e2fsprogs", "mmdebstrap", "gcc", "libc6-dev", "make", "zstd", "xz-utils", "util-linux",
    "btrfs-progs", "xfsprogs", "fuse-overlayfs", "rsync", "git", "skopeo", "podman", "conmon", "uidmap", "buildah",
    "mergerfs", "bpftrace", "linux-perf", "python3-venv",
)  # fmt: skip
LACKING = (
    "left out: apt's sources have no package unionfs-fuse; without it the kit cannot measure: union:unionfs-fuse\n"
)


def listed(what: str) -> dict[str, str]:
    """Return the packages of a list of the program, and what each is for."""
    (block,) = re.findall(rf"^{what}\(\) {{\n\tcat <<'END'\n(.*?)^END", PROGRAM.read_text(), re.M | re.S)
    return {line.split(" ", 2)[1]: line.split(" ", 2)[2] for line in block.splitlines()}


@pytest.fixture
def debian_13(tmp_path: Path) -> Debian:
    return make_debian(tmp_path, *NEW, *ALWAYS)


def test_what_a_release_lacks_is_left_out_and_named(debian_13: Debian) -> None:
    done = debian_13.run([PROGRAM, "compare"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("left out:") == 1 and LACKING in done.stdout
    assert {"docker-cli", "docker-buildx", "mergerfs", "mmdebstrap"} <= debian_13.installed


def test_the_client_of_docker_has_another_package_before_debian_13(tmp_path: Path) -> None:
    debian_12 = make_debian(tmp_path, *OLD, *ALWAYS)
    done = debian_12.run([PROGRAM, "compare"])
    assert done.returncode == 0 and "left out" not in done.stdout, done.stderr
    assert {"docker.io", "unionfs-fuse"} <= debian_12.installed


def test_a_package_that_cannot_be_installed_here_does_not_keep_others_out(tmp_path: Path) -> None:
    packages = ["podman needs nothing-of-this-name" if name == "podman" else name for name in ALWAYS]
    debian = make_debian(tmp_path, *OLD, *packages)
    done = debian.run([PROGRAM, "compare"])
    assert done.returncode == 0, done.stderr
    assert "left out: apt cannot install podman; without it the kit cannot measure: layer:podman/overlay" in done.stdout
    assert "podman" not in debian.installed and {"buildah", "unionfs-fuse"} <= debian.installed


def test_without_a_required_package_the_set_up_ends_with_an_error(tmp_path: Path) -> None:
    debian = make_debian(tmp_path, *(name for name in (*OLD, *ALWAYS) if name != "mmdebstrap"))
    done = debian.run([PROGRAM, "compare"])
    assert done.returncode == 1 and "error: apt's sources have no package mmdebstrap" in done.stderr
    assert not debian.installed


def test_no_list_is_fetched_where_it_would_change_nothing(debian_13: Debian) -> None:
    """Debian 13 has no unionfs-fuse: make compare fetched all lists at every call."""
    (tools := debian_13.root / "tools").mkdir()
    for line in re.findall(r"^([\w.-]+) [\w,.|-]+ ", PROGRAM.read_text(), re.M):
        if line != "unionfs-fuse" and not (debian_13.root / "bin" / line).exists():
            (tools / line).symlink_to("/bin/true")
    path = f"{debian_13.environment['PATH']}:{tools}"
    environment = {**debian_13.environment, "PATH": path, "PYTHON": "true"}
    debian_13.update()
    done = subprocess.run([PROGRAM, "compare"], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", LACKING)  # apt-get prints what it fetches


@pytest.mark.parametrize("lock", ["lib/dpkg/lock-frontend", "lib/apt/lists/lock", "cache/apt/archives/lock"])
def test_it_waits_for_another_program_that_uses_apt(debian_13: Debian, lock: str) -> None:
    """unattended-upgrades holds these locks for minutes on a fresh cloud machine."""
    with (debian_13.root / "var" / lock).open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        process = debian_13.start([PROGRAM, "compare"])
        assert process.stdout
        waits = next(line for line in process.stdout if line.startswith(("waiting", "E:")))
        assert waits.startswith("waiting up to 30 minutes for another program that uses apt: E: Could not get lock")
        assert lock in waits
    output = process.communicate()[0]
    assert process.returncode == 0 and LACKING in output, output
    assert "mmdebstrap" in debian_13.installed


def test_the_kits_own_image_has_what_make_installs() -> None:
    packages = {name for names in listed("compare") for name in names.rpartition("|")[2].split(",")}
    named = {"linux-tools-generic": "linux-perf"}  # Ubuntu's
    assert len(packages) > 15
    dockerfile = (Path(__file__).parents[1] / "examples/docker/Dockerfile").read_text()
    installed = set(dockerfile.replace("\\\n", " ").split())
    assert {named.get(name, name) for name in packages} | {"python3-venv"} <= installed


def test_each_package_that_may_lack_says_what_it_is_for() -> None:
    assert listed("test_too") and all(purpose.startswith("tests ") for purpose in listed("test_too").values())
    assert all(purpose == "-" or len(purpose) > 4 for purpose in listed("compare").values())
