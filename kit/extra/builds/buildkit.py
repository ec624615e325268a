"""BuildKit as an engine of build arms: a private buildkitd for each arm, and its client buildctl."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from kit.arms.engines.backing_root import BackingRoot
from kit.arms.engines.engine import Blocker
from kit.arms.engines.managed import EngineKind, Installation, PrivateEngine
from kit.arms.engines.root import versions
from kit.extra.builds.building import BuildClient
from kit.extra.builds.buildkitd import Buildkitd
from kit.extra.builds.client import client_environment
from kit.extra.builds.output import printed_in_buildkit
from kit.extra.builds.tool import BuildTool
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import which
from kit.host.machine import Host
from kit.model.arm import Arm
from kit.model.fact import Fact


class BuildkitStarter:
    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        """Debian has no package of BuildKit."""
        missing = next((tool for tool in _TOOLS[:2] if not which(tool)), "")
        if missing and host.root and not self._installation.version:
            replacement = f"build:buildkit@{versions('buildkit')[-1]}/{arm.driver}"
            reason = f"{missing} is not installed"
            return Blocker(reason, f"use {replacement}, built from source, or +buildkit of Docker")
        return self._installation.check(arm, host)

    def start(
        self, stack: ExitStack, arm: Arm, backing_root: BackingRoot, name: str, options: Sequence[str]
    ) -> Buildkitd:
        daemon = Buildkitd(arm.driver, self._installation.home(backing_root, name, f"buildkit-{arm.driver}"))
        stack.callback(daemon.stop)
        daemon.start()
        return daemon


class BuildkitSnapshotters:
    """BuildKit's storage drivers, of which it has no settings."""

    def options(self, stack: ExitStack, arm: Arm, backing_root: BackingRoot, name: str) -> Sequence[str]:
        return ()

    def status(self, daemon: Buildkitd) -> str:
        return ""


class BuildctlBuilder:
    """buildctl build, from and to images in OCI layout."""

    def check(self, arm: Arm) -> Blocker | None:
        return None

    def load(self, daemon: Buildkitd, backing_root: BackingRoot) -> None:
        daemon.store.add(backing_root.needed_image)

    def keep(self, daemon: Buildkitd) -> None:
        daemon.keep()

    def facts(self, arm: Arm) -> Sequence[Fact]:
        return ()

    def tool(self, daemon: Buildkitd, arm: Arm) -> BuildTool:
        settings = daemon.home.directory / "client"
        settings.mkdir(exist_ok=True)
        options = ("build", "--progress=plain", "--frontend=dockerfile.v0", "--opt=force-network-mode=none")
        return BuildTool(
            "buildkit",
            (*daemon.client_words(), *options),
            Cgroup.named(daemon.home.container_cgroup.lstrip("/")),
            size=daemon.store.size,
            forget=daemon.forget,
            compressed=True,
            daemons=Cgroup.named(daemon.home.cgroup),
            env=client_environment(settings),
            printed=printed_in_buildkit,
            arguments=daemon.arguments,
        )


def _engine(installation: Installation) -> PrivateEngine[Buildkitd]:
    starter, client = BuildkitStarter(installation), BuildClient(installation, BuildctlBuilder())
    return PrivateEngine(installation, starter, BuildkitSnapshotters(), client)


_TOOLS = ("buildkitd", "buildctl", "runc")
BUILDKIT = EngineKind("buildkit", _TOOLS, _engine, tag="bk-", version_tag="bk", recorded=("buildkitd", "runc"))
