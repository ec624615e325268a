"""Engines of build arms: private daemons of Docker and Podman."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from kit.arms.engines.backing_root import BackingRoot
from kit.arms.engines.container import docker_errors
from kit.arms.engines.docker import TOOLS as DOCKER_TOOLS
from kit.arms.engines.docker import DockerStarter, GraphDrivers, load_once
from kit.arms.engines.docker_server import DockerServer
from kit.arms.engines.engine import Blocker
from kit.arms.engines.managed import EngineKind, Installation, PrivateEngine
from kit.arms.engines.oci_runtime import oci_runtime
from kit.arms.engines.podman import TOOLS as PODMAN_TOOLS
from kit.arms.engines.podman import ContainersStorage, PodmanService, PodmanStarter
from kit.arms.engines.supervisor import DaemonDirs
from kit.core.errors import MachineError
from kit.extra.builds.building import BuildClient
from kit.extra.builds.client import client_environment, docker_client
from kit.extra.builds.output import printed_in_buildkit
from kit.extra.builds.tool import BuildTool
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import environment, require, run
from kit.model.arm import Arm, driver_of
from kit.model.fact import PROGRAM, Fact


class DockerBuilder:
    """docker build."""

    def check(self, arm: Arm) -> Blocker | None:
        return _missing(lambda: self._client(arm))

    def _client(self, arm: Arm) -> str:
        """Return the path of the program that builds. Raises MachineError."""
        return docker_client(arm.buildkit, client_environment(Path("/nonexistent")))

    def load(self, daemon: DockerServer, backing_root: BackingRoot) -> None:
        load_once(daemon, backing_root)

    def keep(self, daemon: DockerServer) -> None:
        return None

    def facts(self, arm: Arm) -> Sequence[Fact]:
        return [_client_version(self._client(arm), arm)]

    def tool(self, daemon: DockerServer, arm: Arm) -> BuildTool:
        settings = daemon.home.directory / "client"
        settings.mkdir(exist_ok=True)
        words = (
            ["--progress=plain"] if arm.buildkit else ["--force-rm", f"--cgroup-parent={daemon.home.container_cgroup}"]
        )
        return BuildTool(
            "buildkit" if arm.buildkit else "build-steps",
            (self._client(arm), "--host", daemon.host, "build", *words),
            Cgroup.named(daemon.home.container_cgroup.lstrip("/")),
            size=partial(_size, daemon),
            forget=partial(_forget_built, daemon),
            compressed=driver_of(arm).image_store,
            daemons=Cgroup.named(daemon.home.cgroup),
            env={**client_environment(settings), "DOCKER_BUILDKIT": str(int(arm.buildkit))},
            printed=printed_in_buildkit if arm.buildkit else lambda line: line,
        )


class ContainersBuilder:
    """podman build, or buildah build on storage into which Podman imports the image: the client builds by itself, the
    service only imports. ``words``: returns the command line up to the client's options."""

    def __init__(self, name: str, version: str, words: Callable[[PodmanService], Sequence[str]]) -> None:
        self._name = name
        self._version = version
        self._words = words

    def check(self, arm: Arm) -> Blocker | None:
        if self._version:  # this machine's client would build, on storage that another version has laid out
            other = f"build:{self._name}/{arm.driver}"
            return Blocker(f"{arm.engine} builds with this machine's {self._name}", f"use {other}, or a layer arm")
        return _missing(lambda: require(self._name))

    def load(self, daemon: PodmanService, backing_root: BackingRoot) -> None:
        load_once(daemon, backing_root)

    def keep(self, daemon: PodmanService) -> None:
        return None

    def facts(self, arm: Arm) -> Sequence[Fact]:
        return [_client_version(require(self._name), arm)]

    def tool(self, daemon: PodmanService, arm: Arm) -> BuildTool:
        group = daemon.home.container_cgroup  # the runtime removes the group of a step with all groups below it
        options = f"--cgroup-parent={group}/steps", "--layers", "--isolation=oci"
        return BuildTool(
            "build-steps",
            (*self._words(daemon), *options),
            Cgroup.named(group.lstrip("/")),
            size=partial(_size, daemon),
            forget=partial(_forget_layers, daemon),
            env=environment(),
        )


def _podman_words(daemon: PodmanService) -> list[str]:
    return [*daemon.client_words(), f"--runtime={oci_runtime()}", "build"]


def _buildah_words(daemon: PodmanService) -> list[str]:
    return [*daemon.environment_words(), "buildah", "build", f"--runtime={oci_runtime()}"]


def _missing(require_client: Callable[[], str]) -> Blocker | None:
    """Return why the program that builds can't be used; None if it can."""
    try:
        require_client()
    except MachineError as error:
        return Blocker(error.message, error.hint)
    return None


def _client_version(client: str, arm: Arm) -> Fact:
    return PROGRAM.fact(run([client, "--version"]).strip(), f"client of {arm}")


def _size(daemon: DockerServer, image: str) -> int:
    with docker_errors(f"{image} has no size", daemon.alive):
        return int(daemon.client.images.get(image).attrs["Size"])


def _forget_built(daemon: DockerServer, images: Sequence[str]) -> None:
    """Remove the images of a run, and dockerd's build cache."""
    _forget_images(daemon, images)
    with docker_errors("the build cache can't be removed", daemon.alive):
        daemon.client.api.prune_builds(all=True)


def _forget_layers(daemon: PodmanService, images: Sequence[str]) -> None:
    """Remove the images of a run, and the directories of cache mounts."""
    _forget_images(daemon, images)
    daemon.clear_build_cache()


def _forget_images(daemon: DockerServer, images: Sequence[str]) -> None:
    """Remove the images of a run, the last ones first, and with them the cache of their layers."""
    import docker.errors

    with docker_errors("the images of a build can't be removed", daemon.alive):
        for image in reversed(images):
            with suppress(docker.errors.NotFound):
                daemon.client.images.remove(image, force=True)
        daemon.client.images.prune({"dangling": True})


def _build_words(home: DaemonDirs) -> Sequence[str]:
    """Return the option of dockerd that names the group of BuildKit's steps."""
    return (f"--cgroup-parent={home.container_cgroup}",)


def _docker(installation: Installation) -> PrivateEngine[DockerServer]:
    client = BuildClient(installation, DockerBuilder())
    return PrivateEngine(
        installation, DockerStarter(installation, _build_words), GraphDrivers(installation.setting), client
    )


def _podman(installation: Installation) -> PrivateEngine[PodmanService]:
    return _containers(installation, ContainersBuilder("podman", installation.version, _podman_words))


def _buildah(installation: Installation) -> PrivateEngine[PodmanService]:
    return _containers(installation, ContainersBuilder("buildah", installation.version, _buildah_words))


def _containers(installation: Installation, builder: ContainersBuilder) -> PrivateEngine[PodmanService]:
    client = BuildClient(installation, builder)
    return PrivateEngine(installation, PodmanStarter(installation), ContainersStorage(), client)


DOCKER_BUILD = EngineKind("docker", DOCKER_TOOLS, _docker, tag="b", version_tag="bv")
PODMAN_BUILD = EngineKind("podman", PODMAN_TOOLS, _podman, tag="bp", version_tag="bpv")
BUILDAH = EngineKind("podman", PODMAN_TOOLS, _buildah, tag="bb", version_tag="bbv")
