"""Plans: which engine's default they follow, and which versions exist, before anything is built or started."""

from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import UsageError
from kit.host.machine import read_host
from kit.model.drivers import Docker
from kit.model.fact import DEFAULT_REFERENCE
from kit.model.session import Request
from kit.session.doctor import default_words
from kit.session.plan.planning import plan_of, prepare, the_docker
from kit.session.start import new_session
from tests.command_line import Kit

DOCKERS = "use one of: docker@20.10, docker@26.1, docker@28, docker@29; or --docker PATH, a Docker of yours"


def arms(request: Request, docker: Docker | None = None) -> list[str]:
    return [str(arm) for arm in plan_of(request, docker).arms]


@pytest.mark.parametrize(
    ("asked", "says", "fix"),
    [
        (
            {"arms": ("bare", "layer:docker@29x/overlay2")},
            "arm 'layer:docker@29x/overlay2': unknown version docker@29x",
            DOCKERS,
        ),
        ({"arms": ("bare", "layer:docker@99/overlay2")}, "arm 'layer:docker@99/overlay2': unknown version docker@99",
         DOCKERS),
        ({"arms": ("bare",), "baseline": "layer:containerd@3/overlayfs"},
         "arm 'layer:containerd@3/overlayfs': unknown version containerd@3",
         "use one of: containerd@1.6, containerd@1.7, containerd@2.1, containerd@2.3, containerd@2.1-nydus"),
        ({"arms": ("bare",), "engine": "docker@"}, "--engine: unknown version docker@", DOCKERS),
        ({"engine": "docker@99"}, "--engine: unknown version docker@99", DOCKERS),
        ({"arms": ("bare",), "engine": "podman"}, "--engine podman: unknown engine",
         "use one of: docker, docker@VERSION, system"),
        ({"arms": ("bare", "layer:docker@29/aufs+cpus=1")},
         "arm 'layer:docker@29/aufs+cpus=1': docker 29 has no aufs, only docker below 24 has it",
         "use layer:docker@20.10/aufs+cpus=1, or leave it out"),
        ({"arms": ("bare", "bind:devicemapper"), "engine": "docker@28"},
         "arm 'bind:docker@28/devicemapper': docker 28 has no devicemapper, only docker below 25 has it",
         "use bind:docker@20.10/devicemapper, or leave it out"),
        ({"arms": ("bare",), "baseline": "layer:containerd@1.7/erofs"},
         "arm 'layer:containerd@1.7/erofs': containerd 1.7 has no erofs, only containerd 2.1 or later has it",
         "use layer:containerd@2.1/erofs, or leave it out"),
    ],
)  # fmt: skip
def test_what_does_not_exist_is_named_while_planning(asked: dict[str, Any], says: str, fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan_of(Request("smoke", **asked))
    assert caught.value.message == says
    assert caught.value.hint == fix


def test_the_command_says_so_at_once(kit: Kit, tmp_path: Path) -> None:
    wrong = "layer:docker@29x/overlay2"
    night = tmp_path / "night.toml"
    night.write_text(f'[[tasks]]\nscenario = "smoke"\narms = ["bare", "{wrong}"]\n')
    for words, where in (
        (("compare", "smoke", "--arms", f"bare,{wrong}", "--dry-run"), f"arm '{wrong}'"),
        (("compare", "smoke", "--arms", f"bare,{wrong}"), f"arm '{wrong}'"),
        (("nightly", str(night), "--check"), f"{night}: task 1"),
        (("nightly", str(night)), f"{night}: task 1"),
    ):
        done = kit(*words)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-2] == f"kit: {where}: unknown version docker@29x"


def dockerd(directory: Path, version: str) -> Path:
    """A program that says its version; nothing else is asked of it while planning."""
    directory.mkdir()
    (directory / "dockerd").write_text(f"#!/bin/sh\necho 'Docker version {version}, build x'\n")
    (directory / "dockerd").chmod(0o755)
    return directory


def test_default_arms_and_reference_are_those_of_the_dockerd_that_is_given(tmp_path: Path) -> None:
    new, old = dockerd(tmp_path / "new", "29.1.0"), dockerd(tmp_path / "old", "20.10.24")
    for given, driver in ((new, "overlayfs"), (new / "dockerd", "overlayfs"), (old, "overlay2")):
        prepared = prepare(Request("smoke", docker=str(given)), read_host())
        assert [str(arm) for arm in prepared.plan.arms if arm.placement == "bind"] == [f"bind:{driver}"]
        session = new_session(prepared)
        assert DEFAULT_REFERENCE.text(session.facts) == prepared.default_reference == f"layer:{driver}"
        # It is stored: another machine, or a later kit, takes the same arms and the same reference.
        assert session.request.arms == tuple(map(str, prepared.plan.arms))


@pytest.mark.parametrize(
    ("docker", "says"),
    [
        (Docker("29.1.0"), "version 29.1.0; its default driver is overlayfs, in containerd's image store"),
        (Docker("29.1.0", None, "btrfs"),
         "version 29.1.0; it keeps its graph driver btrfs, which has data in its data-root"),
        (Docker("29.1.0", False, "btrfs"),
         "version 29.1.0; its default driver is overlay2 (set in /etc/docker/daemon.json)"),
        (Docker("28.5.2", None, "overlay2"), "version 28.5.2; its default driver is overlay2"),
    ],
)  # fmt: skip
def test_doctor_says_what_a_docker_uses_and_why(docker: Docker, says: str) -> None:
    assert default_words(docker) == says


def test_a_version_in_the_name_of_the_engine_decides_without_the_machine() -> None:
    for here in (Docker(), Docker("20.10"), Docker("29.1", False)):
        found = prepare(Request("smoke", engine="docker@29"), read_host(), here)
        assert [str(arm) for arm in found.plan.arms][2:5] == [
            f"{placement}:docker@29/overlayfs" for placement in ("runtime", "bind", "volume")
        ]
        assert found.default_reference == "layer:docker@29/overlayfs"
        assert [str(arm) for arm in found.plan.arms if arm.placement == "layer"] == [
            f"layer:docker@29/{name}" for name in ("overlayfs", "overlay2", "btrfs", "fuse-overlayfs", "zfs")
        ]


def test_a_dry_run_names_what_the_docker_here_cannot_have(kit: Kit, tmp_path: Path) -> None:
    words = ("compare", "smoke", "--arms", "bare,layer:overlay2,layer:aufs", "--dry-run", "--docker")
    new, old = (
        kit(*words, str(dockerd(tmp_path / version, version))).stdout.splitlines() for version in ("29.1.0", "20.10.24")
    )
    reason = "; not run: docker 29.1.0 has no aufs, only docker below 24 has it"
    assert [line for line in new if "not run" in line] == [f"  layer:aufs, vs bare{reason}"]
    assert not [line for line in old if "not run" in line]


def test_a_guest_has_a_docker_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{dockerd(tmp_path / 'bin', '29.1.0')}:/usr/bin:/bin")
    assert the_docker(Request("smoke")).version == "29.1.0"
    assert the_docker(Request("smoke", guest="uml")) == Docker("20.10")  # Debian 12's
    found = arms(Request("smoke", guest="uml"))
    assert found[2:4] == ["runtime:overlay2", "bind:overlay2"]
    assert "layer:overlayfs" not in found and "layer:devicemapper" in found


def test_a_session_of_arms_without_a_default_driver_has_no_reference_planned() -> None:
    prepared = prepare(Request("smoke", arms=("bare", "bare@xfs")), read_host())
    assert prepared.default_reference == "" and DEFAULT_REFERENCE.text(new_session(prepared).facts) == ""
