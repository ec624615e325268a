"""The driver that an engine uses by default, of every version and configuration."""

import pytest

from kit.model.arm import parse_arm
from kit.model.drivers import Docker, common_docker, common_drivers, default_driver, lacking


@pytest.mark.parametrize(
    ("version", "alone", "on", "off"),
    [
        ("", "overlay2", "overlay2", "overlay2"),
        ("library-import", "overlay2", "overlay2", "overlay2"),
        ("20.10.24+dfsg1", "overlay2", "overlay2", "overlay2"),
        ("23.0.6", "overlay2", "overlay2", "overlay2"),
        ("24.0.0", "overlay2", "overlayfs", "overlay2"),
        ("28.5.2+dfsg4", "overlay2", "overlayfs", "overlay2"),
        ("29.0.0", "overlayfs", "overlayfs", "overlay2"),
        ("29", "overlayfs", "overlayfs", "overlay2"),
        ("30.1", "overlayfs", "overlayfs", "overlay2"),
    ],
)
def test_docker_uses_what_its_version_and_its_configuration_say(version: str, alone: str, on: str, off: str) -> None:
    found = [Docker(version, configured).driver for configured in (None, True, False)]
    assert found == [alone, on, off]


@pytest.mark.parametrize(
    ("version", "configured", "driver", "keeps"),
    [
        ("29.1.0", None, "overlay2", True),
        ("29.1.0", True, "overlayfs", False),
        ("29.1.0", False, "overlay2", False),
        ("28.5.2", None, "overlay2", False),
    ],
)
def test_docker_29_keeps_the_graph_driver_that_has_data(
    version: str, configured: bool | None, driver: str, keeps: bool
) -> None:
    found = Docker(version, configured, "overlay2")
    assert (found.driver, found.keeps) == (driver, keeps)
    assert "overlayfs" in found.drivers


@pytest.mark.parametrize(
    ("version", "none_of", "all_of"),
    [
        ("", ("overlayfs",), ("aufs", "devicemapper")),
        ("20.10.24+dfsg1", ("overlayfs",), ("aufs", "devicemapper")),
        ("24.0.7", ("aufs",), ("overlayfs", "devicemapper")),
        ("25.0", ("aufs", "devicemapper"), ("overlayfs", "btrfs", "zfs", "vfs", "fuse-overlayfs")),
        ("29.8+v2.0.0-beta.24", ("aufs", "devicemapper"), ("overlayfs", "overlay2", "zfs")),
    ],
)
def test_a_version_has_only_drivers_that_it_may_have(
    version: str, none_of: tuple[str, ...], all_of: tuple[str, ...]
) -> None:
    found = set(Docker(version).drivers)
    assert not found & set(none_of) and found >= set(all_of)


@pytest.mark.parametrize(
    ("engine", "driver", "reason"),
    [
        ("docker@29", "aufs", "docker 29 has no aufs, only docker below 24 has it"),
        ("docker@26.1", "devicemapper", "docker 26.1 has no devicemapper, only docker below 25 has it"),
        ("docker@20.10", "overlayfs", "docker 20.10 has no overlayfs, only docker 24 or later has it"),
        ("docker", "aufs", "docker 28.5 has no aufs, only docker below 24 has it"),
        ("containerd@1.7", "erofs", "containerd 1.7 has no erofs, only containerd 2.1 or later has it"),
        ("docker@20.10", "aufs", ""),
        ("docker@29", "overlay2", ""),
        ("containerd@2.1", "erofs", ""),
        ("containerd", "erofs", ""),
        ("system", "aufs", ""),
        ("podman", "overlay", ""),
        ("", "", ""),
    ],
)
def test_what_a_version_lacks_is_named(engine: str, driver: str, reason: str) -> None:
    assert lacking(engine, driver, Docker("28.5")) == reason


def test_one_docker_stands_for_many_machines() -> None:
    old, new, kept = Docker("20.10.24"), Docker("29.1.0"), Docker("29.1.0", None, "btrfs")
    assert common_docker([new, Docker("30.0")]) == new
    assert common_docker([new, old]).drivers == old.drivers
    assert common_docker([new, kept]).driver == common_docker([kept, new]).driver == "overlay2"
    assert common_docker([new, Docker()]).drivers == Docker().drivers
    # The oldest uses the image store, as it is configured; a newer one does not.
    assert common_docker([Docker("28.5", True), kept]).driver == "overlay2"


def test_each_engine_has_a_default() -> None:
    here = Docker("28.5")
    found = {name: default_driver(name, here) for name in ("docker", "docker@29", "docker@20.10", "podman", "union")}
    assert found == {
        "docker": "overlay2", "docker@29": "overlayfs", "docker@20.10": "overlay2", "podman": "overlay", "union": "",
    }  # fmt: skip
    assert default_driver("containerd@2.3", here) == default_driver("containerd", here) == "overlayfs"
    assert common_drivers() == ("overlay2", "overlayfs", "podman/overlay", "containerd/overlayfs")


def test_runtime_is_entered_by_the_daemon_of_its_version() -> None:
    """Its root is a plain directory: any driver of the daemon will do, so it shares the daemon of the ladder."""
    found = [str(parse_arm("runtime", engine)) for engine in ("docker", "docker@28", "docker@29", "system")]
    assert found == [
        "runtime:overlay2", "runtime:docker@28/overlay2", "runtime:docker@29/overlayfs", "runtime:system/overlay2",
    ]  # fmt: skip
    assert str(parse_arm("runtime@btrfs", "docker@29")) == "runtime:docker@29/btrfs"
