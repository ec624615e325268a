"""Docker: a private dockerd for each driver and backing filesystem."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from kit.engines.account import known
from kit.engines.backing_root import BackingRoot, unpack_tree
from kit.engines.container import (
    ContainerSpec,
    arm_cgroup,
    check_features,
    docker_errors,
    empty_tree,
    put_sources,
    remove_volume,
    start_container,
)
from kit.engines.control import Control, control_directory
from kit.engines.docker_server import DockerServer
from kit.engines.dockerd import Dockerd
from kit.engines.engine import EngineConfig
from kit.engines.fuse_daemon import move_daemon
from kit.engines.managed import PrivateEngine, driver_errors, of_engine
from kit.engines.plain_runtime import VARIABLE
from kit.engines.rootless import RootlessDockerd, passable
from kit.engines.sandbox import Sandbox
from kit.engines.supervisor import DaemonDirs
from kit.engines.user_namespace import NumberMap, guarded_for, remap_words
from kit.filesystem.thin_pool import thin_pool
from kit.host.cgroup.cgroup import Cgroup
from kit.image.layout import CONTROL, INPUTS, TREE
from kit.model.arm import RUNTIME, USERNS, Arm, driver_of
from kit.model.drivers import THIN_POOL
from kit.model.fact import DRIVER_STATUS, PROGRAM, RUNS, Fact
from kit.model.scenario import DOCKER


class DockerEngine(PrivateEngine[DockerServer]):
    root_of = "docker"
    tools: tuple[str, ...] = ("dockerd", "containerd", "runc")
    prefix = ""

    def __init__(self, setting: EngineConfig, version: str = "") -> None:
        programs = setting.docker if self.root_of == "docker" else None
        super().__init__(setting, version, f"{self.prefix}v{version}-" if version else self.prefix, programs)

    def start_daemon(self, stack: ExitStack, arm: Arm, backing_root: BackingRoot) -> DockerServer:
        name = self.new_name("d")
        with driver_errors(arm, backing_root):
            if arm.option(USERNS):
                users = self._setting.run / f"{name}-users"
                stack.enter_context(known(self._setting.user.account(), users, self._setting.journal))
            inputs = backing_root.inputs
            if arm.rootless and inputs:
                inputs = stack.enter_context(passable(inputs, self._setting.run / f"{name}-inputs"))
            daemon = self.make_daemon(stack, arm, backing_root, name)
            daemon.inputs = inputs
            stack.callback(daemon.stop)
            daemon.start()
        return daemon

    def fill_daemon(self, daemon: DockerServer, arm: Arm, backing_root: BackingRoot) -> list[Fact]:
        info = daemon.client.info()
        _load(daemon, backing_root)
        return list(self._describe(arm, backing_root, info))

    def make_daemon(self, stack: ExitStack, arm: Arm, backing_root: BackingRoot, name: str) -> DockerServer:
        options = (*driver_of(arm).storage_options, *self._pool(stack, arm, backing_root, name))
        home = self.home(backing_root, name, arm.driver, arm.rootless)
        words = (*self.daemon_words(home), *remap_words(arm, self._setting.user))
        kind = RootlessDockerd if arm.rootless else Dockerd
        return kind(arm.driver, home, options, words, self.version("dockerd"))

    def daemon_words(self, home: DaemonDirs) -> tuple[str, ...]:
        """Return further options of dockerd."""
        return ()

    def _pool(self, stack: ExitStack, arm: Arm, backing_root: BackingRoot, name: str) -> tuple[str, ...]:
        """Make a thin pool; return the options that name it."""
        if (THIN_POOL, "") not in arm.options:
            return ()
        setting = self._setting
        pool = thin_pool(backing_root.backing, setting.label, name, setting.journal, setting.thin_device)
        return (f"dm.thinpooldev=/dev/mapper/{stack.enter_context(pool)}",)

    @contextmanager
    def sandbox(self, arm: Arm, backing_root: BackingRoot) -> Iterator[Sandbox]:
        daemon = self._daemons[arm.daemon, backing_root.backing.path]
        name = self.new_name("c")
        with ExitStack() as stack:
            root = os.geteuid() == 0
            options: dict[str, Any] = {}
            if root and not arm.rootless:
                options["cgroup_parent"] = backing_root.below(daemon.home.container_cgroup)
            mounts, environment = {}, {}
            if arm.plain_root:
                plain, own = stack.enter_context(backing_root.used_root())
                environment[VARIABLE] = str(plain)
                mounts = {str(source): (target, "rw") for source, target in own.items()}
            if runtime := daemon.runtime_name(arm.option(RUNTIME), arm.plain_root):
                options["runtime"] = runtime
            placed = _tree_mount(stack, arm, backing_root, daemon)
            mounts |= placed
            mapped, run = bool(arm.option(USERNS)), guarded_for(self._setting, arm)
            control = stack.enter_context(control_directory(run / name, self._setting.probe, shared=mapped))
            spec = ContainerSpec(
                backing_root.needed_image.tag, daemon.host, arm, control, daemon.inputs, mounts,
                arm.placement == "tmpfs", environment, options, probe=None if root else self._setting.probe,
            )  # fmt: skip
            serving = Cgroup.named(f"{backing_root.below(f'{self._setting.cgroup}/served')}/{name}")
            if root:
                stack.callback(serving.remove)  # the daemon ends with its container
            running = start_container(stack, spec, daemon.alive)
            check_features(arm, running.pid)
            tree = Path(f"/proc/{running.pid}/root{TREE}")
            if mapped and arm.placement == "bind":
                NumberMap(running.pid).give(*map(Path, placed))
            elif mapped and not arm.rootless:  # as Podman makes it, it is the machine's root's
                NumberMap(running.pid).give(tree)
            sandbox = Sandbox(
                tree=TREE,
                inputs=INPUTS,
                cgroup=arm_cgroup(stack, arm, running.pid, f"{backing_root.below(self._setting.cgroup)}/n{name}"),
                backing=backing_root.backing,
                probe=running.probe,
                unpack=partial(put_sources, running.container) if mapped else partial(unpack_tree, tree),
                alive=daemon.alive,
                env=backing_root.env,
                layered=arm.placement == "layer",
                own=(Path(f"/proc/{running.pid}/root"),) if arm.own_filesystem else (),
                engine=partial(_show_socket, daemon, control, mapped and not arm.rootless),
                daemons=move_daemon(running.pid, Cgroup.named(daemon.home.cgroup), serving, daemon.home.data)
                if root
                else None,
            )
            if not root:
                stack.callback(empty_tree, sandbox)
            yield sandbox

    def _describe(self, arm: Arm, backing_root: BackingRoot, info: dict[str, Any]) -> Iterator[Fact]:
        of = of_engine(arm)
        for tool in self.tools_of(arm):
            yield PROGRAM.fact(self.version(tool), f"{tool}{of}")
        if os.geteuid() != 0:
            yield RUNS.fact("rootless", self.tools[0])
        status = "; ".join(f"{key}: {value}" for key, value in info["DriverStatus"] or ())
        daemon = f"{'+'.join(arm.daemon)}{of} on {backing_root.backing.name}"
        yield DRIVER_STATUS.fact(status or "no driver status", daemon)


def _show_socket(daemon: DockerServer, control: Control, mapped: bool) -> str:
    """Make a second name for the daemon's socket, in the directory that the arm sees. ``mapped``: for other users than
    the daemon's, as that directory is guarded."""
    if mapped:
        daemon.socket.chmod(0o666)
    os.link(daemon.socket, control.path / DOCKER)
    return f"{CONTROL}/{DOCKER}"


def _load(daemon: DockerServer, backing_root: BackingRoot) -> None:
    """Load the image once per data-root: with its layers if it has them, else as one layer."""
    image = backing_root.needed_image
    with docker_errors(f"image {image.name} can't be imported", lambda: daemon.alive() or backing_root.backing.full()):
        daemon.load(image)


def _tree_mount(
    stack: ExitStack, arm: Arm, backing_root: BackingRoot, daemon: DockerServer
) -> dict[str, tuple[str, str]]:
    """Return the mount of the build tree: a plain directory, a volume, or none (layer, tmpfs)."""
    if arm.placement in ("bind", "runtime"):
        tree = stack.enter_context(backing_root.tree())
        return {str(tree): (TREE, "rw")}
    if arm.placement == "volume":
        with docker_errors("no volume", daemon.alive):
            volume = daemon.client.volumes.create(backing_root.new_name())
        stack.callback(remove_volume, volume, daemon.alive)
        return {volume.name: (TREE, "rw")}
    return {}
