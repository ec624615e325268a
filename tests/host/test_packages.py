"""What a missing tool's fix says: the packages that this machine's apt has, asked for by a real apt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kit.core.errors import MachineError
from kit.host.command import install_fix, require
from kit.host.packages import PACKAGES
from kit.model.drivers import DRIVERS
from tests.apt import make_debian


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of the kit find an apt of the test's own: a Debian without contrib, after unionfs-fuse was dropped."""
    debian = make_debian(tmp_path, "docker-cli", "docker.io", "linux-tools-generic", "xfsprogs", "gcc", "libc6-dev")
    debian.update()
    monkeypatch.setenv("PATH", debian.for_kit())


@pytest.mark.parametrize(
    ("packages", "fix"),
    [
        ("xfsprogs", "run apt-get install xfsprogs"),
        ("gcc libc6-dev", "run apt-get install gcc libc6-dev"),
        (PACKAGES["docker"], "run apt-get install docker-cli"),
        (PACKAGES["perf"], "run apt-get install linux-tools-generic"),
        (
            PACKAGES["zpool"],
            "add Debian's component contrib to apt's sources, then run "
            "apt-get update && apt-get install zfsutils-linux",
        ),
        (
            "unionfs-fuse",
            "apt's sources have no package unionfs-fuse: Debian 12 was the last release with it; use union:mergerfs",
        ),
        ("nosuchpackage", "apt's sources have no package nosuchpackage: build it from source"),
    ],
)
@pytest.mark.usefixtures("apt")
def test_the_fix_names_what_apt_has(packages: str, fix: str) -> None:
    assert install_fix(packages) == fix


@pytest.mark.usefixtures("apt")
def test_a_missing_tool_names_its_package() -> None:
    with pytest.raises(MachineError, match=r"mkfs\.nosuch is not installed") as caught:
        require("mkfs.nosuch", "xfsprogs")
    assert caught.value.hint == "run apt-get install xfsprogs"


def test_without_lists_apt_fetches_them_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    debian = make_debian(tmp_path)
    monkeypatch.setenv("PATH", debian.for_kit())
    assert install_fix("xfsprogs") == "run apt-get update && apt-get install xfsprogs"


def test_without_apt_the_name_is_debians(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (
        install_fix(PACKAGES["docker"])
        == "install docker-cli, or what your distribution calls it; the name is Debian's"
    )


def test_no_fix_of_a_driver_names_a_package_without_asking_apt() -> None:
    named = [driver for known in DRIVERS.values() for driver in known if re.search(r"apt(-get)? install", driver.fix)]
    assert named == []
