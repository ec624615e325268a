"""Which Docker would run here, and what its configuration says."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kit.arms.engines.docker import DOCKER_ENGINE
from kit.arms.engines.engine import EngineConfig
from kit.arms.engines.installed import installed_docker, version_of
from kit.arms.engines.managed import Installation
from kit.host.machine import read_host
from kit.host.recovery.journal import Journal
from kit.model.arm import parse_arm
from kit.model.drivers import Docker


def program(directory: Path, said: str, name: str = "dockerd") -> Path:
    """A program that prints a version, as the real one does."""
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\necho '{said}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("Docker version 20.10.24+dfsg1, build 297e128", "20.10.24+dfsg1"),
        ("Docker version 29.8+v2.0.0-beta.24, build v2.0.0-beta.24", "29.8+v2.0.0-beta.24"),
        ("containerd github.com/containerd/containerd/v2 v2.3.5+unknown ", "2.3.5+unknown"),
        ("podman version 4.3.1", "4.3.1"),
        ("Docker version library-import, build library-import", ""),
    ],
)
def test_a_program_says_its_version(said: str, version: str, tmp_path: Path) -> None:
    assert version_of(program(tmp_path, said)) == version


def test_a_program_that_fails_has_no_version(tmp_path: Path) -> None:
    path = program(tmp_path, "")
    path.write_text("#!/bin/sh\nexit 3\n")
    assert version_of(path) == "" and version_of(tmp_path / "none") == ""


def test_a_changed_program_is_asked_again(tmp_path: Path) -> None:
    assert version_of(program(tmp_path, "Docker version 28.5.2")) == "28.5.2"
    (tmp_path / "dockerd").unlink()
    assert version_of(program(tmp_path, "Docker version 29.1.0")) == "29.1.0"


@pytest.mark.parametrize(
    ("configuration", "configured"),
    [
        ({}, None),
        ({"features": {"containerd-snapshotter": True}}, True),
        ({"features": {"containerd-snapshotter": False}}, False),
        ({"features": {"buildkit": True}}, None),
        ({"storage-driver": "overlay2"}, False),
        ({"storage-driver": "overlayfs"}, None),
        ({"storage-driver": "overlay2", "features": {"containerd-snapshotter": True}}, True),
        ({"userns-remap": "default"}, False),
        ([], None),
        ({"features": "all"}, None),
        ({"storage-driver": ["overlay2"]}, None),
    ],
)
def test_the_configuration_may_turn_the_image_store_on_or_off(
    configuration: Any, configured: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "Docker version 29.1.0, build x")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    path = tmp_path / "daemon.json"
    if isinstance(configuration, dict):  # else that of this machine would be looked at
        configuration = {**configuration, "data-root": f"{tmp_path}/data"}
    path.write_text(json.dumps(configuration))
    found = installed_docker(configuration=path)
    assert (found.version, found.configured) == ("29.1.0", configured)
    # The configuration is that of the machine's own daemon.
    assert installed_docker(tmp_path / "bin", path) == Docker("29.1.0")


def test_a_configuration_that_is_no_json_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "Docker version 28.5.2")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    (tmp_path / "daemon.json").write_text("{,")
    for name in ("daemon.json", "none"):
        found = installed_docker(configuration=tmp_path / name)
        assert (found.version, found.configured) == ("28.5.2", None)


@pytest.mark.parametrize(
    ("version", "entries", "kept"),
    [
        ("29.1.0", ("overlay2/l/",), "overlay2"),
        ("29.1.0", ("btrfs/subvolumes/", "image/btrfs/"), "btrfs"),
        ("29.1.0", ("btrfs/subvolumes/", "overlay2/l/"), "overlay2"),
        ("29.1.0", ("vfs/dir/",), ""),
        ("29.1.0", ("aufs/diff/",), ""),
        ("20.10.24", ("aufs/diff/",), "aufs"),
        ("29.1.0", ("overlay2/",), ""),
        ("29.1.0", ("rootfs/overlayfs/", "containerd/"), ""),
        ("29.1.0", (), ""),
    ],
)
def test_data_of_a_graph_driver_in_the_data_root_is_found(
    version: str, entries: tuple[str, ...], kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", f"Docker version {version}, build x")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    for entry in entries:
        (tmp_path / "data" / entry).mkdir(parents=True)
    (tmp_path / "daemon.json").write_text(json.dumps({"data-root": f"{tmp_path}/data"}))
    assert installed_docker(configuration=tmp_path / "daemon.json") == Docker(version, None, kept)
    # That data is the machine's own daemon's.
    assert installed_docker(tmp_path / "bin", tmp_path / "daemon.json") == Docker(version)


def test_a_named_docker_has_its_own_programs_but_not_those_of_a_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    journal = Journal(tmp_path / "journal" / "x.jsonl", {})
    programs = tmp_path / "docker"
    programs.mkdir()
    setting = EngineConfig("x", tmp_path, tmp_path, journal, "none", docker=programs)
    host = replace(read_host(), root=True)
    assert DOCKER_ENGINE(setting).check(parse_arm("layer:overlay2"), host) is None
    blocked = DOCKER_ENGINE(setting).check(parse_arm("layer:fuse-overlayfs"), host)
    assert blocked and blocked.reason == "fuse-overlayfs is not installed"
    (programs / "fuse-overlayfs").touch()
    assert DOCKER_ENGINE(setting).check(parse_arm("layer:fuse-overlayfs"), host) is None


def test_versions_of_a_named_docker_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumption compares them: runs of two versions are never mixed."""
    programs = tmp_path / "docker"
    for tool in DOCKER_ENGINE.tools:
        program(programs, f"{tool} version 1.2.3", tool)
    setting = EngineConfig(
        "x", tmp_path, tmp_path, Journal(tmp_path / "journal" / "x.jsonl", {}), "none", docker=programs
    )
    facts = Installation(DOCKER_ENGINE, setting).facts(parse_arm("layer:overlay2"))
    assert [fact.key for fact in facts][: len(DOCKER_ENGINE.tools)] == [*DOCKER_ENGINE.tools]
