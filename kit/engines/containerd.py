"""containerd by itself, without Docker: a private one for each snapshotter and backing filesystem, told by its ctr."""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from kit import engines
from kit.core.errors import MORE_ROOM, RunError
from kit.engines.container import arm_cgroup, check_features
from kit.engines.control import control_directory
from kit.engines.daemon import Daemon, Program
from kit.engines.ground import Ground, unpack_tree
from kit.engines.place import Place
from kit.engines.private import PrivateEngine
from kit.filesystem.block import block_file
from kit.filesystem.thin_pool import thin_pool
from kit.host.command import run, run_bytes
from kit.host.machine import Host
from kit.host.mounts import mount_of
from kit.image import Image
from kit.image.layout import CONTROL, INPUTS, TREE
from kit.model.arm import Arm, fix_of
from kit.model.fact import DRIVER_STATUS, PROGRAM

#: The filesystem in each thin device: as large as Docker's devicemapper has it.
_DEVICE_BYTES = 10 << 30
#: Room in a block file beside twice the image.
_SPARE = 256 << 20
_NAME = "kit.local/kit"


class ContainerdEngine(PrivateEngine["ContainerdDaemon"]):
    root_of = "containerd"
    tools = ("containerd", "ctr", "runc")
    undriven = engines.Blocker(
        "by Docker's API, which containerd has not", "use docker@28/overlayfs: Docker on its image store"
    )

    def __init__(self, setting: engines.Setting, version: str = "") -> None:
        super().__init__(setting, version, f"c{version}-" if version else "c-")

    def check(self, arm: Arm, host: Host) -> engines.Blocker | None:
        if arm.placement == "volume":
            return engines.Blocker("containerd has no volumes", f"bind:{arm.engine}/{arm.driver} is a directory too")
        return super().check(arm, host)

    def start_daemon(self, arm: Arm, ground: Ground) -> ContainerdDaemon:
        name = self.new_name()
        setting = self._setting
        with ExitStack() as stack:
            data = ground.backing.path / f"{name}-{arm.driver}"
            try:
                plugin = self._plugin(stack, arm, ground, name)
                daemon = ContainerdDaemon(
                    arm.driver, data, setting.run / name, f"{setting.cgroup}/{name}", plugin,
                    self._root, self.shared(ground),
                )  # fmt: skip
                stack.callback(daemon.stop)
                daemon.start()
                daemon.load(ground.needed_image)
            except RunError as error:
                reason = ground.backing.full() or error.message
                hint = MORE_ROOM if ground.backing.full() else fix_of(arm) or error.hint
                raise RunError(f"{arm.driver} on {ground.backing.name}: {reason}", hint) from None
            of = f" of {arm.engine}"
            self._facts += [PROGRAM.fact(self._root.version(tool), f"{tool}{of}") for tool in ("containerd", "runc")]
            status = f"{'+'.join(arm.daemon)}{of} on {ground.backing.name}"
            self._facts.append(DRIVER_STATUS.fact(_words(plugin), status))
            self._stack.enter_context(stack.pop_all())
        return daemon

    def _plugin(self, stack: ExitStack, arm: Arm, ground: Ground, name: str) -> list[str]:
        """The lines of containerd's configuration that the snapshotter needs; what they name is made."""
        driver, data = arm.driver, ground.backing.path / f"{name}-{arm.driver}"
        settings: dict[str, object] = {"mount_options": arm.feature_words} if arm.features else {}
        if driver == "devmapper":
            setting = self._setting
            pool = stack.enter_context(thin_pool(ground.backing, setting.label, name, setting.journal))
            size = f"{_DEVICE_BYTES >> 30}GB"
            settings = {"pool_name": pool, "root_path": str(data / "thin"), "base_image_size": size, "fs_type": "ext4"}
        elif driver == "blockfile":
            # Every snapshot is a copy of this file, holes filled: not larger than need be.
            scratch = block_file(ground.backing.path / f"{name}.scratch", 2 * ground.needed_image.size + _SPARE)
            settings = {
                "scratch_file": str(scratch), "root_path": str(data / "files"), "fs_type": "ext4",
                "mount_options": ["loop"],
            }  # fmt: skip
        elif driver == "zfs":
            # The snapshotter wants a dataset that is mounted where it keeps its state.
            state = ground.backing.path / f"{name}.state"
            dataset = f"{mount_of(ground.backing.path).source}/{name}"
            run(["zfs", "create", "-o", f"mountpoint={state}", dataset], what="zfs create")
            settings = {"root_path": str(state)}
        elif driver == "erofs":
            return ['[plugins."io.containerd.service.v1.diff-service"]', 'default = ["erofs", "walking"]']
        lines = [f'[plugins."io.containerd.snapshotter.v1.{driver}"]'] if settings else []
        return [*lines, *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]

    @contextmanager
    def place(self, arm: Arm, ground: Ground) -> Iterator[Place]:
        daemon = self._daemons[arm.daemon, ground.backing.path]
        name = self.new_name()
        with ExitStack() as stack:
            mounts = []
            if arm.plain_root:
                stack.callback(ground.plain_root.restore)
            if arm.placement in ("bind", "runtime"):
                mounts.append(_bind(stack.enter_context(ground.tree()), TREE))
            elif arm.placement == "tmpfs":
                mounts.append(f"type=tmpfs,src=tmpfs,dst={TREE},options=exec")
            control = stack.enter_context(control_directory(self._setting.run / name, self._setting.probe))
            mounts.append(_bind(control.path, CONTROL))
            if ground.inputs:
                mounts.append(_bind(ground.inputs, INPUTS, "ro"))
            source = ["--rootfs", str(ground.plain_root.path)] if arm.plain_root else [daemon.image]
            stack.callback(daemon.remove, name)
            pid = daemon.run(name, [*_limits(arm), *(word for mount in mounts for word in ("--mount", mount))], source)
            probe = control.server.accept(lambda: daemon.alive() or daemon.why_dead(name))
            stack.callback(probe.close)
            check_features(arm, pid)
            yield Place(
                tree=TREE,
                inputs=INPUTS,
                cgroup=arm_cgroup(stack, arm, pid, f"{self._setting.cgroup}/n{name}"),
                backing=ground.backing,
                probe=probe,
                unpack=partial(unpack_tree, Path(f"/proc/{pid}/root{TREE}")),
                alive=daemon.alive,
                env=ground.env,
                layered=arm.placement == "layer",
                own=Path(f"/proc/{pid}/root") if arm.own_filesystem else None,
            )


class ContainerdDaemon(Daemon):
    """Its one image and the containers made of it. ``options``: the lines of its snapshotter's configuration."""

    image = ""

    def programs(self) -> Sequence[Program]:
        config = self._containerd_config()
        with config.open("a") as file:
            file.write("\n".join(self._options) + "\n")
        return [Program("containerd", ["containerd", "--config", str(config)], self._directory / "c")]

    def _connect(self) -> None:
        """Whether it has the snapshotter, and if not, why. Raises RunError."""
        for line in self._ctr("plugins", "list").splitlines():
            found = re.match(rf"io\.containerd\.snapshotter\.v1\s+{self.driver}\s.*\s(\w+)\s*$", line)
            if found and found[1] == "ok":
                return
            if found:
                raise RunError(f"its snapshotter {self.driver} does not work here: {self._reason()}", "see session.log")
        raise RunError(f"this containerd has no snapshotter {self.driver}", "use another version of it")

    def _reason(self) -> str:
        """What its log says of the snapshotter."""
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if self.driver in line]
        said = [line for line in lines if "error" in line or "skip" in line]
        found = re.search(r'error="((?:[^"\\]|\\.)*)"', said[-1]) if said else None
        return found[1] if found else "its log does not say why"

    def _ctr(self, *words: str) -> str:
        return run(self.inside(["ctr", "--address", str(self._directory / "c"), "--namespace", "kit", *words]))

    def load(self, image: Image) -> None:
        """Import and unpack the image. Raises RunError."""
        local = ["--local"] if "--local" in self._ctr("images", "import", "--help") else []
        words = ["ctr", "--address", str(self._directory / "c"), "--namespace", "kit", "images", "import", *local]
        words += ["--snapshotter", self.driver, "-"]
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                self.inside(words),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
            assert process.stdin
            try:
                with process.stdin as pipe:
                    _write_archive(image, pipe)
            except BrokenPipeError:
                pass  # what it says tells why
            if process.wait():
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip().splitlines() or ["it said nothing"]
                raise RunError(f"image {image.name} can't be imported: {said[-1]}", "see session.log")
        self.image = self._ctr("images", "list", "--quiet").split()[0]

    def run(self, name: str, options: Sequence[str], source: Sequence[str]) -> int:
        """Start a container with the probe as its first process; returns its PID. Raises RunError."""
        pid_file = self._directory / "p"
        pid_file.unlink(missing_ok=True)
        chosen = ["--snapshotter", self.driver] if source[0] != "--rootfs" else []
        words = ["--detach", "--null-io", "--cwd", TREE, "--pid-file", str(pid_file)]
        words += ["--cgroup", f"{self.container_cgroup}/{name}", *chosen, *options]
        self._ctr("run", *words, *source, name, f"{CONTROL}/kit-probe", "serve", f"{CONTROL}/s")
        return int(pid_file.read_text())

    def why_dead(self, name: str) -> str:
        """Why a container is not running, or ''."""
        for line in self._ctr("tasks", "list").splitlines():
            words = line.split()
            if words[0] == name:
                return "" if words[2] == "RUNNING" else f"the container is {words[2].lower()}"
        return "the container is gone"

    def remove(self, name: str) -> None:
        """Kill it, and remove it with its snapshot; with its daemon dead the session's cgroup is what ends it."""
        for words in (("tasks", "delete", "--force", name), ("containers", "delete", name)):
            try:
                self._ctr(*words)
            except RunError as error:
                if not self.alive() and "not found" not in error.message:
                    raise


def _bind(source: Path, target: str, mode: str = "rw") -> str:
    return f"type=bind,src={source},dst={target},options=rbind:{mode}"


_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _limits(arm: Arm) -> list[str]:
    words = [] if arm.option("seccomp") == "unconfined" else ["--seccomp"]
    if arm.option("cpus"):
        words += ["--cpus", arm.option("cpus")]
    if arm.option("memory"):
        number, unit = re.fullmatch(r"(\d+)(\w?)", arm.option("memory")).groups()  # type: ignore[union-attr]
        words += ["--memory-limit", str(int(number) * _UNITS[unit])]
    return words


def _words(plugin: Sequence[str]) -> str:
    return ", ".join(line for line in plugin if "=" in line and "/" not in line) or "default settings"


def _write_archive(image: Image, pipe: IO[bytes]) -> None:
    """The image as ``docker save`` writes it: its own archive where it has layers, else one of a single layer."""
    if image.archive:
        with image.archive.open("rb") as file:
            while data := file.read(1 << 20):
                pipe.write(data)
        return
    config = {
        "architecture": run_bytes(["dpkg", "--print-architecture"]).decode().strip(),
        "os": "linux",
        "config": {"Env": [f"{key}={value}" for key, value in image.env]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{image.digest}"]},
        "history": [{"created_by": image.origin}],
    }
    manifest = [{"Config": "config.json", "RepoTags": [f"{_NAME}:{image.digest[:12]}"], "Layers": ["layer.tar"]}]
    with tarfile.open(fileobj=pipe, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        for name, document in (("manifest.json", manifest), ("config.json", config)):
            data = json.dumps(document).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        with image.rootfs.open("rb") as file:
            entry = tarfile.TarInfo("layer.tar")
            entry.size = image.size
            tar.addfile(entry, file)
