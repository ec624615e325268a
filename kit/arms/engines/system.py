"""The machine's running Docker with its own driver: needs no root, and changes nothing permanently."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from kit.arms.engines.backing_root import BackingRoot
from kit.arms.engines.container import (
    ContainerSpec,
    docker_errors,
    empty_tree,
    load_image,
    own_part,
    put_sources,
    remove_volume,
    start_container,
)
from kit.arms.engines.control import control_directory
from kit.arms.engines.engine import Blocker, EngineConfig
from kit.arms.engines.oci_runtime import registered_blocker, runtime_errors, runtime_of
from kit.arms.engines.sandbox import Sandbox
from kit.arms.engines.user_namespace import NumberMap, guarded
from kit.arms.filesystem.device import block_number
from kit.arms.image.layout import INPUTS, TREE
from kit.core.errors import KitError, MachineError, RunError
from kit.host.cgroup.cgroup import Cgroup
from kit.host.machine import Host
from kit.host.mounts import Mount, check_runs_programs, mount_of
from kit.host.recovery.cleanup import Cleanup
from kit.model.arm import RUNTIME, Arm
from kit.model.fact import RUNNING_ENGINE, RUNNING_STATUS, Fact


def address() -> str:
    return os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")


def connect() -> Any:
    """Return a docker.DockerClient of the running daemon. Raises MachineError if no daemon runs or this user may not
    use it."""
    import docker
    import docker.errors

    try:
        client = docker.DockerClient(base_url=address(), timeout=300)
        client.ping()
    except (docker.errors.DockerException, OSError) as error:
        message = str(error)
        reasons = {
            "FileNotFoundError": "not found",
            "PermissionError": "permission denied",
            "refused": "nothing listens",
        }
        reason = next((text for key, text in reasons.items() if key in message), message)
        raise MachineError(
            f"no running Docker at {address()}: {reason}", "start it, set DOCKER_HOST, or join its group"
        ) from None
    return client


def running_driver() -> str:
    return str(_running_info()["Driver"])


def _running_info() -> Mapping[str, Any]:
    """Return what the running daemon says of itself. Raises MachineError."""
    with closing(connect()) as client:
        return dict(client.info())


class SystemEngine:
    def __init__(self, setting: EngineConfig) -> None:
        self._setting = setting
        self._stack = ExitStack()
        self._client: Any = None
        self._facts: list[Fact] = []
        self._root = self._layers = Path("/")
        self._users = 0
        self._count = 0
        self._filling = Lock()

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        if arm.option("cgroup") == "none":
            return Blocker(
                "cgroup=none moves the container of a private daemon to another group", "use docker/ as root"
            )
        if arm.placement == "runtime":
            return Blocker("the running Docker does not have the kit's runtime", "use docker/ with root for this arm")
        if self._setting.lifted:
            return Blocker(
                f"the running Docker can't run the kit's timer: {self._setting.cache} is mounted noexec",
                "set KIT_HOME to a directory on another filesystem",
            )
        try:
            info = _running_info()
        except KitError as error:
            return Blocker(error.message, error.hint)
        driver = info["Driver"]
        if driver != arm.driver:
            return Blocker(f"the running Docker uses {driver}", f"use {arm.placement}:system/{driver}")
        return registered_blocker(arm, info.get("Runtimes") or {})

    def open(self) -> None:
        if self._client is not None:
            return
        self._client = connect()
        self._stack.callback(self._client.close)
        info = self._client.info()
        self._root, self._layers = Path(info["DockerRootDir"]), _layers(info)
        self._users = _mapped_root(info)
        status = "; ".join(f"{key}: {value}" for key, value in info.get("DriverStatus") or ())
        self._facts = [
            RUNNING_ENGINE.fact(info["ServerVersion"], "docker"),
            RUNNING_STATUS.fact(status, info["Driver"]),
        ]

    def start(self, arm: Arm, backing_root: BackingRoot) -> None:
        pass

    def fill(self, arm: Arm, backing_root: BackingRoot) -> None:
        self._check_place(arm, backing_root)
        with self._filling:
            self._load(backing_root)
        if runtime_of(arm):
            with runtime_errors(arm), self.sandbox(arm, backing_root):  # what refuses to start it is known now
                pass

    def _check_place(self, arm: Arm, backing_root: BackingRoot) -> None:
        """Check where the daemon stores data. Raises MachineError if its layers and volumes lie on another filesystem
        than the arms they are compared with: the difference would be that of two disks. Raises it also if its root
        could not get a tree of the kit's."""
        if arm.placement == "bind" and self._users not in (0, os.geteuid()) and os.geteuid() and _is_here(self._root):
            raise MachineError(*_may_not_write(self._users))
        if arm.placement == "bind":
            place = backing_root.backing.outside(backing_root.backing.path)
            check_runs_programs(place, str(place), "use --dir DIRECTORY on another filesystem")
        root = self._layers if arm.placement == "layer" else self._root
        if arm.placement not in ("layer", "volume") or not _is_here(root):
            return
        theirs, ours = mount_of(root), mount_of(backing_root.backing.path)
        if _filesystem(theirs) != _filesystem(ours):
            there = arm.on("dir")
            raise MachineError(
                f"the running Docker's {arm.placement}s lie on {_told(theirs)} ({root}), "
                f"its baseline on {_told(ours)} ({backing_root.backing.outside(backing_root.backing.path).parent})",
                f"use --dir DIRECTORY on the filesystem of {root}" + (f", and {there}" if there != arm else ""),
            )

    def _load(self, backing_root: BackingRoot) -> None:
        """Load the image, unless the daemon has it: the user's own, or one loaded for another arm."""
        import docker.errors

        image = backing_root.needed_image
        try:
            self._client.images.get(image.tag)
            return
        except docker.errors.ImageNotFound:
            pass
        self._stack.enter_context(self._setting.journal.holding("image", image.tag))
        with docker_errors(f"image {image.name} can't be imported", self._alive):
            load_image(self._client, image)

    @contextmanager
    def sandbox(self, arm: Arm, backing_root: BackingRoot) -> Iterator[Sandbox]:
        self._count += 1
        with ExitStack() as stack:
            mounts: dict[str, tuple[str, str]] = {}
            tree = stack.enter_context(backing_root.tree()) if arm.placement == "bind" else None
            if tree:
                mounts[str(backing_root.backing.outside(tree))] = (
                    TREE,
                    "rw",
                )  # the daemon sees no mount of the session
            elif arm.placement == "volume":
                name = f"kit-{self._setting.session}-{self._count}"
                stack.enter_context(self._setting.journal.holding("volume", name))
                with docker_errors("no volume", self._alive):
                    stack.callback(remove_volume, self._client.volumes.create(name), self._alive)
                mounts[name] = (TREE, "rw")
            directory = guarded(self._setting.run) / f"s{self._count}"
            control = stack.enter_context(control_directory(directory, self._setting.probe, shared=True))
            name = f"kit-{self._setting.session}-{self._count}"
            stack.enter_context(self._setting.journal.holding("container", name))
            runtime = arm.option(RUNTIME)
            spec = ContainerSpec(
                backing_root.needed_image.tag, address(), arm, control, backing_root.inputs, mounts,
                arm.placement == "tmpfs", name=name, options={"runtime": runtime} if runtime else {},
                probe=self._setting.probe,  # /run is noexec on most machines, and the daemon is not in the session's
            )  # fmt: skip
            running = start_container(stack, spec, self._alive)
            if tree:
                _give(tree, running.pid)
            sandbox = Sandbox(
                tree=TREE,
                inputs=INPUTS,
                cgroup=_cgroup(running.pid),
                backing=backing_root.backing,
                probe=running.probe,
                unpack=partial(put_sources, running.container),
                alive=self._alive,
                env=backing_root.env,
                layered=arm.placement == "layer",
            )
            stack.callback(empty_tree, sandbox)
            yield sandbox

    def _alive(self) -> str:
        try:
            self._client.ping()
            return ""
        except Exception as error:  # docker-py passes on errors of requests and urllib3
            return f"the running Docker does not answer: {error}"

    def unsupported(self, interfaces: Sequence[str]) -> Blocker | None:
        return Blocker("the running Docker is your own", "use --engine docker")

    def facts(self) -> list[Fact]:
        return self._facts

    def close(self) -> None:
        self._stack.close()


def _is_here(directory: Path) -> bool:
    """Return False for a daemon on another machine, whose mounts are unknown here."""
    try:
        directory.stat()
    except FileNotFoundError:
        return False
    except PermissionError:
        pass
    return True


def _layers(info: Mapping[str, Any]) -> Path:
    """Return the directory of layers. Those of Docker's containerd image store are in containerd's root, which is
    separate unless dockerd has started it."""
    root = Path(info["DockerRootDir"])
    if not dict(info.get("DriverStatus") or ()).get("driver-type", "").startswith("io.containerd."):
        return root
    address = (info.get("Containerd") or {}).get("Address", "/run/containerd/containerd.sock")
    return Path("/var/lib/containerd") if address.startswith("/run/containerd/") else root / "containerd"


def _filesystem(mount: Mount) -> str:
    """Return a key that is equal for all mounts of one filesystem, as far as the kernel shows."""
    return block_number(mount) or mount.device


def _told(mount: Mount) -> str:
    return f"{mount.type} of {mount.source}"


def _give(tree: Path, pid: int) -> None:
    """Give a tree to a container's root: a daemon that maps users (userns-remap) runs it as another user, who could
    write nothing. Raises RunError."""
    try:
        numbers = NumberMap(pid)
    except OSError:
        return  # on another machine
    try:
        numbers.give(tree)
    except PermissionError:
        raise RunError(*_may_not_write(numbers.root[0])) from None


def _may_not_write(user: int) -> tuple[str, str]:
    reason = f"the running Docker's root is user {user} here, who may not write to your directory"
    return reason, "run as root: sudo kit …, or use arms on layer and volume"


def _mapped_root(info: Mapping[str, Any]) -> int:
    """Return the host's user of its containers' root if it maps users, as its directory's name says (dockerd(8),
    userns-remap); else 0."""
    mapped = any(str(option).startswith("name=userns") for option in info.get("SecurityOptions") or ())
    numbered = re.fullmatch(r"(\d+)\.\d+", Path(info["DockerRootDir"]).name) if mapped else None
    return int(numbered[1]) if numbered else 0


def _cgroup(pid: int) -> Cgroup | None:
    """Return the group; None if the daemon runs on another machine, or in another PID namespace."""
    try:
        group = own_part(Cgroup.of(pid))
    except OSError:
        return None
    return group if group.paths and group.cpu() else None


def _undo(kind: str, name: str) -> None:
    import docker.errors

    with docker_errors(f"{name} of {kind} can't be removed", str), suppress(docker.errors.NotFound, MachineError):
        collection = getattr(connect(), kind)  # a MachineError: removed with its daemon
        if kind == "images":
            collection.remove(name)
        else:
            collection.get(name).remove(force=True)


def _is_our_image(value: str, journal: Path) -> bool:
    return re.fullmatch(r"kit:[0-9a-f]{12}", value) is not None


CONTAINER = Cleanup(partial(_undo, "containers"))
VOLUME = Cleanup(partial(_undo, "volumes"))
IMAGE = Cleanup(partial(_undo, "images"), ours=_is_our_image)
