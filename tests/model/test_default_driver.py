"""The driver that an engine uses by default, of every version and configuration."""

import pytest

from kit.model.arm import parse_arm
from kit.model.default_driver import Docker, common_drivers, default_driver


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
