"""Docker: a private dockerd for each driver and backing filesystem."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kit.arms.engines.account import known
from kit.arms.engines.backing_root import BackingRoot, unpack_tree
from kit.arms.engines.container import (
    ContainerSpec,
    arm_cgroup,
    check_features,
    docker_errors,
    empty_tree,
    put_sources,
    remove_volume,
    start_container,
)
from kit.arms.engines.control import Control, control_directory
from kit.arms.engines.docker_server import Dockerd, DockerServer
from kit.arms.engines.engine import Blocker, EngineConfig
from kit.arms.engines.fuse_daemon import move_daemon
from kit.arms.engines.managed import EngineKind, Installation, PrivateEngine
from kit.arms.engines.plain_runtime import VARIABLE
from kit.arms.engines.rootless import RootlessDockerd, passable
from kit.arms.engines.sandbox import Sandbox
from kit.arms.engines.supervisor import DaemonDirs
from kit.arms.engines.user_namespace import NumberMap, guarded_for, remap_words
from kit.arms.filesystem.thin_pool import thin_pool
from kit.arms.image.layout import CONTROL, INPUTS, TREE
from kit.host.cgroup.cgroup import Cgroup
from kit.host.machine import Host
from kit.model.arm import RUNTIME, USERNS, Arm, driver_of
from kit.model.drivers import THIN_POOL
from kit.model.fact import Fact
from kit.model.scenario import DOCKER


class DockerStarter:
    """``words``: returns further options of dockerd."""

    def __init__(
        self, installation: Installation, words: Callable[[DaemonDirs], Sequence[str]] = lambda home: ()
    ) -> None:
        self._installation = installation
        self._words = words

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        return self._installation.check(arm, host)

    def start(
        self, stack: ExitStack, arm: Arm, backing_root: BackingRoot, name: str, options: Sequence[str]
    ) -> DockerServer:
        def dockerd() -> DockerServer:
            home = self._installation.home(backing_root, name, arm.driver, arm.rootless)
            words = (*self._words(home), *remap_words(arm, self._installation.setting.user))
            kind = RootlessDockerd if arm.rootless else Dockerd
            return kind(arm.driver, home, options, words, self._installation.version_of("dockerd"))

        return start_server(stack, self._installation.setting, arm, backing_root.inputs, name, dockerd)


Server = TypeVar("Server", bound=DockerServer)


def start_server(
    stack: ExitStack, setting: EngineConfig, arm: Arm, inputs: Path | None, name: str, make: Callable[[], Server]
) -> Server:
    """Return a server that runs until the stack is closed, as its user if the arm has one. Raises KitError."""
    if arm.option(USERNS):
        stack.enter_context(known(setting.user.account(), setting.run / f"{name}-users", setting.journal))
    if arm.rootless and inputs:
        inputs = stack.enter_context(passable(inputs, setting.run / f"{name}-inputs"))
    server = make()
    server.inputs = inputs
    stack.callback(server.stop)
    server.start()
    return server


class GraphDrivers:
    """Docker's storage drivers."""

    def __init__(self, setting: EngineConfig) -> None:
        self._setting = setting

    def options(self, stack: ExitStack, arm: Arm, backing_root: BackingRoot, name: str) -> Sequence[str]:
        options = driver_of(arm).storage_options
        if (THIN_POOL, "") not in arm.options:
            return options
        setting = self._setting
        pool = thin_pool(backing_root.backing, setting.label, name, setting.journal, setting.thin_device)
        return (*options, f"dm.thinpooldev=/dev/mapper/{stack.enter_context(pool)}")

    def status(self, daemon: DockerServer) -> str:
        return shown_status(daemon)


def shown_status(daemon: DockerServer) -> str:
    """Return what a daemon shows of its storage driver in Docker's API. Raises the errors of docker-py."""
    status = daemon.client.info()["DriverStatus"] or ()
    return "; ".join(f"{key}: {value}" for key, value in status) or "no driver status"


class ContainerClient:
    """Runs arms as containers, by Docker's API."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        return None

    def unsupported(self, interfaces: Sequence[str]) -> Blocker | None:
        if DOCKER in interfaces:
            return None
        return Blocker("the scenario does not use Docker's API", f'add "{DOCKER}" to engine in its file')

    def load(self, daemon: DockerServer, arm: Arm, backing_root: BackingRoot) -> Sequence[Fact]:
        load_once(daemon, backing_root)
        return ()

    @contextmanager
    def sandbox(self, daemon: DockerServer, arm: Arm, backing_root: BackingRoot) -> Iterator[Sandbox]:
        setting = self._installation.setting
        name = self._installation.new_name("c")
        with ExitStack() as stack:
            root = os.geteuid() == 0
            options: dict[str, Any] = {}
            if root and not arm.rootless:
                options["cgroup_parent"] = backing_root.below(daemon.home.container_cgroup)
            mounts, environment = {}, {}
            if arm.plain_root:
                plain, own_directories = stack.enter_context(backing_root.used_root())
                environment[VARIABLE] = str(plain)
                mounts = {str(source): (target, "rw") for source, target in own_directories.items()}
            if runtime := daemon.runtime_name(arm.option(RUNTIME), arm.plain_root):
                options["runtime"] = runtime
            placed = _tree_mount(stack, arm, backing_root, daemon)
            mounts |= placed
            mapped, run = bool(arm.option(USERNS)), guarded_for(setting, arm)
            control = stack.enter_context(control_directory(run / name, setting.probe, shared=mapped))
            spec = ContainerSpec(
                backing_root.needed_image.tag, daemon.host, arm, control, daemon.inputs, mounts,
                arm.placement == "tmpfs", environment, options, probe=None if root else setting.probe,
            )  # fmt: skip
            serving = Cgroup.named(f"{backing_root.below(f'{setting.cgroup}/served')}/{name}")
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
                cgroup=arm_cgroup(stack, arm, running.pid, f"{backing_root.below(setting.cgroup)}/n{name}"),
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


def _show_socket(daemon: DockerServer, control: Control, mapped: bool) -> str:
    """Make a second name for the daemon's socket, in the directory that the arm sees. ``mapped``: for other users than
    the daemon's, as that directory is guarded."""
    if mapped:
        daemon.socket.chmod(0o666)
    os.link(daemon.socket, control.path / DOCKER)
    return f"{CONTROL}/{DOCKER}"


def load_once(daemon: DockerServer, backing_root: BackingRoot) -> None:
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


def _engine(installation: Installation) -> PrivateEngine[DockerServer]:
    setting, client = installation.setting, ContainerClient(installation)
    return PrivateEngine(installation, DockerStarter(installation), GraphDrivers(setting), client)


TOOLS = ("dockerd", "containerd", "runc")
DOCKER_ENGINE = EngineKind("docker", TOOLS, _engine, tag="", version_tag="v")
