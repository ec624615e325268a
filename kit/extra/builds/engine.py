"""Engines of build arms: private daemons of Docker and Podman."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from kit.engines.backing_root import BackingRoot
from kit.engines.container import docker_errors
from kit.engines.docker import DockerEngine
from kit.engines.docker_server import DockerServer
from kit.engines.dockerd import Dockerd
from kit.engines.engine import Blocker
from kit.engines.oci_runtime import oci_runtime
from kit.engines.podman import PodmanEngine, PodmanService
from kit.engines.supervisor import DaemonDirs
from kit.extra.builds.building import BuildingEngine
from kit.extra.builds.client import client_environment, docker_client
from kit.extra.builds.output import printed_in_buildkit
from kit.extra.builds.tool import BuildTool
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import environment, require, run
from kit.host.machine import Host
from kit.model.arm import Arm, driver_of
from kit.model.fact import PROGRAM, Fact


class BuildEngine(BuildingEngine[DockerServer], DockerEngine):
    """docker build."""

    prefix = "b"

    def check_client(self, arm: Arm) -> None:
        self.find_client(arm)

    def find_client(self, arm: Arm) -> str:
        """Return the path of the program that builds. Raises MachineError."""
        return docker_client(arm.buildkit, client_environment(Path("/nonexistent")))

    def daemon_words(self, home: DaemonDirs) -> tuple[str, ...]:
        return (f"--cgroup-parent={home.container_cgroup}",)  # of the steps of BuildKit

    def fill_daemon(self, daemon: DockerServer, arm: Arm, backing_root: BackingRoot) -> list[Fact]:
        facts = super().fill_daemon(daemon, arm, backing_root)
        self.build_base(daemon, arm, backing_root)
        return [*facts, PROGRAM.fact(run([self.find_client(arm), "--version"]).strip(), f"client of {arm}")]

    def tool(self, daemon: DockerServer, arm: Arm) -> BuildTool:
        settings = daemon.home.directory / "client"
        settings.mkdir(exist_ok=True)
        words = (
            ["--progress=plain"] if arm.buildkit else ["--force-rm", f"--cgroup-parent={daemon.home.container_cgroup}"]
        )
        return BuildTool(
            "buildkit" if arm.buildkit else "build-steps",
            (self.find_client(arm), "--host", daemon.host, "build", *words),
            Cgroup.named(daemon.home.container_cgroup.lstrip("/")),
            size=partial(_size, daemon),
            forget=partial(_forget, daemon),
            compressed=driver_of(arm).image_store,
            daemons=Cgroup.named(daemon.home.cgroup),
            env={**client_environment(settings), "DOCKER_BUILDKIT": str(int(arm.buildkit))},
            printed=printed_in_buildkit if arm.buildkit else lambda line: line,
        )


class PodmanBuildEngine(BuildEngine, PodmanEngine):
    """podman build. The client builds by itself; the service only imports the image."""

    prefix = "bp"
    builder = "podman"

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        if self._version:  # this machine's client would build, on storage that another version has laid out
            other = f"build:{self.builder}/{arm.driver}"
            return Blocker(f"{arm.engine} builds with this machine's {self.builder}", f"use {other}, or a layer arm")
        return super().check(arm, host)

    def find_client(self, arm: Arm) -> str:
        return require(self.builder)

    def tool(self, daemon: DockerServer, arm: Arm) -> BuildTool:
        assert isinstance(daemon, PodmanService)
        group = daemon.home.container_cgroup  # the runtime removes the group of a step with all groups below it
        words = f"--cgroup-parent={group}/steps", "--layers", "--isolation=oci"
        return BuildTool(
            "build-steps",
            (*self.client_words(daemon), *words),
            Cgroup.named(group.lstrip("/")),
            size=partial(_size, daemon),
            forget=partial(_forget, daemon),
            env=environment(),
        )

    def client_words(self, daemon: PodmanService) -> list[str]:
        """Return the command line of the client, up to its options."""
        return [*daemon.client_words(), f"--runtime={oci_runtime()}", "build"]


class BuildahEngine(PodmanBuildEngine):
    """buildah build, on storage into which Podman imports the image."""

    prefix = "bb"
    builder = "buildah"

    def client_words(self, daemon: PodmanService) -> list[str]:
        return [*daemon.environment_words(), self.builder, "build", f"--runtime={oci_runtime()}"]


def _size(daemon: DockerServer, image: str) -> int:
    with docker_errors(f"{image} has no size", daemon.alive):
        return int(daemon.client.images.get(image).attrs["Size"])


def _forget(daemon: DockerServer, images: Sequence[str]) -> None:
    """Remove the images of a run, the last ones first, and with them the build cache."""
    import docker.errors

    with docker_errors("the images of a build can't be removed", daemon.alive):
        for image in reversed(images):
            with suppress(docker.errors.NotFound):
                daemon.client.images.remove(image, force=True)
        daemon.client.images.prune({"dangling": True})
        if isinstance(daemon, Dockerd):
            daemon.client.api.prune_builds(all=True)
    if isinstance(daemon, PodmanService):
        daemon.clear_build_cache()
