"""BuildKit as an engine of build arms: a private buildkitd for each arm, and its client buildctl."""

from __future__ import annotations

from contextlib import ExitStack

from kit.core.errors import MachineError
from kit.engines.backing_root import BackingRoot
from kit.engines.engine import EngineConfig
from kit.engines.managed import driver_errors
from kit.engines.root import versions
from kit.extra.builds.building import BuildingEngine
from kit.extra.builds.buildkitd import Buildkitd
from kit.extra.builds.client import client_environment
from kit.extra.builds.output import printed_in_buildkit
from kit.extra.builds.tool import BuildTool
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import which
from kit.model.arm import Arm
from kit.model.fact import PROGRAM, Fact


class BuildkitEngine(BuildingEngine[Buildkitd]):
    root_of = "buildkit"
    tools = ("buildkitd", "buildctl", "runc")

    def __init__(self, setting: EngineConfig, version: str = "") -> None:
        super().__init__(setting, version, f"bk{version}-" if version else "bk-")

    def require_tools(self, arm: Arm) -> None:
        """Raises MachineError. Debian has no package of BuildKit."""
        missing = next((tool for tool in self.tools[:2] if not which(tool)), "")
        if missing:
            replacement = f"build:buildkit@{versions('buildkit')[-1]}/{arm.driver}"
            raise MachineError(
                f"{missing} is not installed", f"use {replacement}, built from source, or +buildkit of Docker"
            )
        super().require_tools(arm)

    def start_daemon(self, stack: ExitStack, arm: Arm, backing_root: BackingRoot) -> Buildkitd:
        daemon = Buildkitd(arm.driver, self.home(backing_root, self.new_name("d"), f"buildkit-{arm.driver}"))
        stack.callback(daemon.stop)
        with driver_errors(arm, backing_root):
            daemon.start()
        return daemon

    def fill_daemon(self, daemon: Buildkitd, arm: Arm, backing_root: BackingRoot) -> list[Fact]:
        daemon.store.add(backing_root.needed_image)
        self.build_base(daemon, arm, backing_root)
        daemon.keep()
        of = f" of {arm.engine}"
        return [PROGRAM.fact(self.version(tool), f"{tool}{of}") for tool in ("buildkitd", "runc")]

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
