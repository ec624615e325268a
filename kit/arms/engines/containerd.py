"""containerd by itself, without Docker: a private one for each snapshotter and backing filesystem, controlled by
ctr."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from kit.arms.engines.backing_root import BackingRoot, unpack_tree
from kit.arms.engines.container import arm_cgroup, check_features
from kit.arms.engines.containerd_daemon import ContainerdDaemon
from kit.arms.engines.control import control_directory
from kit.arms.engines.engine import Blocker, EngineConfig
from kit.arms.engines.fuse_daemon import move_daemon
from kit.arms.engines.managed import EngineKind, Installation, PrivateEngine, driver_errors
from kit.arms.engines.oci_runtime import meet_kernel
from kit.arms.engines.sandbox import Sandbox
from kit.arms.filesystem.block import block_file
from kit.arms.filesystem.thin_pool import thin_pool
from kit.arms.image.layout import CONTROL, INPUTS, TREE
from kit.core.quantity import size
from kit.host.cgroup.cgroup import Cgroup
from kit.host.command import run
from kit.host.machine import Host
from kit.host.mounts import mount_of
from kit.model.arm import RUNTIME, Arm
from kit.model.fact import Fact
from kit.model.scenario import CTR

#: Size of the filesystem in each thin device: the same as Docker's devicemapper.
_DEVICE_BYTES = 10 << 30
#: Extra space in a block file beside twice the image.
_SPARE = 256 << 20


class ContainerdStarter:
    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        return self._installation.check(arm, host)

    def start(
        self, stack: ExitStack, arm: Arm, backing_root: BackingRoot, name: str, options: Sequence[str]
    ) -> ContainerdDaemon:
        daemon = ContainerdDaemon(arm.driver, self._installation.home(backing_root, name, arm.driver), options)
        stack.callback(daemon.stop)
        daemon.start()
        return daemon


class Snapshotters:
    """containerd's storage drivers."""

    def __init__(self, setting: EngineConfig) -> None:
        self._setting = setting

    def options(self, stack: ExitStack, arm: Arm, backing_root: BackingRoot, name: str) -> Sequence[str]:
        """Return lines of containerd's configuration."""
        driver, data = arm.driver, backing_root.backing.path / f"{name}-{arm.driver}"
        settings: dict[str, object] = {"mount_options": arm.feature_words} if arm.features else {}
        if driver == "devmapper":
            setting = self._setting
            pool = stack.enter_context(thin_pool(backing_root.backing, setting.label, name, setting.journal))
            size = f"{_DEVICE_BYTES >> 30}GB"
            settings = {"pool_name": pool, "root_path": str(data / "thin"), "base_image_size": size, "fs_type": "ext4"}
        elif driver == "blockfile":
            # Every snapshot is a full copy of this file: keep it as small as possible.
            scratch = block_file(
                backing_root.backing.path / f"{name}.scratch", 2 * backing_root.needed_image.size + _SPARE
            )
            settings = {
                "scratch_file": str(scratch), "root_path": str(data / "files"), "fs_type": "ext4",
                "mount_options": ["loop"],
            }  # fmt: skip
        elif driver == "zfs":
            # The snapshotter needs a dataset that is mounted at its state directory.
            state = backing_root.backing.path / f"{name}.state"
            dataset = f"{mount_of(backing_root.backing.path).source}/{name}"
            run(["zfs", "create", "-o", f"mountpoint={state}", dataset], what="zfs create")
            settings = {"root_path": str(state)}
        elif driver == "erofs":
            return ['[plugins."io.containerd.service.v1.diff-service"]', 'default = ["erofs", "walking"]']
        lines = [f'[plugins."io.containerd.snapshotter.v1.{driver}"]'] if settings else []
        return [*lines, *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]

    def status(self, daemon: ContainerdDaemon) -> str:
        return ", ".join(line for line in daemon.options if "=" in line and "/" not in line) or "default settings"


class CtrClient:
    """Runs arms as containers, by ctr."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        if arm.placement == "volume":
            return Blocker("containerd has no volumes", f"use bind:{arm.engine}/{arm.driver}, a directory too")
        return None

    def unsupported(self, interfaces: Sequence[str]) -> Blocker | None:
        if CTR in interfaces:
            return None
        return Blocker("containerd does not have Docker's API", "use layer:docker@28/overlayfs: Docker with it")

    def load(self, daemon: ContainerdDaemon, arm: Arm, backing_root: BackingRoot) -> Sequence[Fact]:
        with driver_errors(arm, backing_root):
            daemon.load(backing_root.needed_image)
        return ()

    @contextmanager
    def sandbox(self, daemon: ContainerdDaemon, arm: Arm, backing_root: BackingRoot) -> Iterator[Sandbox]:
        setting = self._installation.setting
        name = f"{setting.part}{self._installation.new_name()}"  # all containerds of a session share runc's directory
        with ExitStack() as stack:
            mounts, source = [], [daemon.image]
            if arm.plain_root:
                plain, own_directories = stack.enter_context(backing_root.used_root())
                source = ["--rootfs", str(plain)]
                mounts += [_bind(directory, target) for directory, target in own_directories.items()]
            if arm.placement in ("bind", "runtime"):
                mounts.append(_bind(stack.enter_context(backing_root.tree()), TREE))
            elif arm.placement == "tmpfs":
                mounts.append(f"type=tmpfs,src=tmpfs,dst={TREE},options=exec")
            control = stack.enter_context(control_directory(setting.run / name, setting.probe))
            mounts.append(_bind(control.path, CONTROL, "ro"))
            if backing_root.inputs:
                mounts.append(_bind(backing_root.inputs, INPUTS, "ro"))
            serving = Cgroup.named(f"{backing_root.below(f'{setting.cgroup}/served')}/{name}")
            stack.callback(serving.remove)  # a daemon of the container's root ends with it
            stack.callback(daemon.remove, name)
            words = [*_limits(arm), *(word for mount in mounts for word in ("--mount", mount))]
            words += ["--cgroup", f"{backing_root.below(daemon.container_cgroup)}/{name}"]
            daemon.run(name, words, source, arm.option(RUNTIME))
            probe = control.server.accept(lambda: daemon.alive() or daemon.why_dead(name))
            stack.callback(probe.close)
            meet_kernel(arm, probe)
            pid = probe.pid
            check_features(arm, pid)
            yield Sandbox(
                tree=TREE,
                inputs=INPUTS,
                cgroup=arm_cgroup(stack, arm, pid, f"{backing_root.below(setting.cgroup)}/n{name}"),
                backing=backing_root.backing,
                probe=probe,
                unpack=partial(unpack_tree, Path(f"/proc/{pid}/root{TREE}")),
                alive=daemon.alive,
                env=backing_root.env,
                layered=arm.placement == "layer",
                own=(Path(f"/proc/{pid}/root"),) if arm.own_filesystem else (),
                engine=partial(_serve_ctr, stack, daemon, control.path, arm.option(RUNTIME)),
                daemons=move_daemon(pid, Cgroup.named(daemon.cgroup), serving, backing_root.backing.path),
            )


def _serve_ctr(stack: ExitStack, daemon: ContainerdDaemon, control: Path, runtime: str) -> str:
    """Run commands of ctr for the arm, beside the daemon: a client inside the arm would have no network."""
    stack.enter_context(daemon.commands(control / CTR, runtime))
    return f"{CONTROL}/{CTR}"


def _bind(source: Path, target: str, mode: str = "rw") -> str:
    return f"type=bind,src={source},dst={target},options=rbind:{mode}"


def _limits(arm: Arm) -> list[str]:
    words = [] if arm.option("seccomp") == "unconfined" else ["--seccomp"]
    if arm.option("cpus"):
        words += ["--cpus", arm.option("cpus")]
    if arm.option("memory"):
        words += ["--memory-limit", str(size(arm.option("memory"), "+memory"))]
    return words


def _engine(installation: Installation) -> PrivateEngine[ContainerdDaemon]:
    setting, client = installation.setting, CtrClient(installation)
    return PrivateEngine(installation, ContainerdStarter(installation), Snapshotters(setting), client)


TOOLS = ("containerd", "ctr", "runc")
CONTAINERD = EngineKind("containerd", TOOLS, _engine, tag="c-", version_tag="c", recorded=("containerd", "runc"))
