"""Podman through its Docker-compatible service, one for each driver and backing filesystem."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock

from kit.arms.engines.account import RANGE
from kit.arms.engines.backing_root import BackingRoot
from kit.arms.engines.docker import ContainerClient, shown_status, start_server
from kit.arms.engines.docker_server import DockerServer, requested_name
from kit.arms.engines.engine import Blocker
from kit.arms.engines.managed import EngineKind, Installation, PrivateEngine
from kit.arms.engines.oci_runtime import oci_runtime, runtime_blocker
from kit.arms.engines.supervisor import DaemonDirs, Program
from kit.arms.engines.user_namespace import namespace_blocker
from kit.arms.image import Image
from kit.core.errors import MachineError
from kit.host import safe_fs
from kit.host.command import require, run
from kit.host.machine import Host
from kit.host.user_namespace import why_no_mapped_users
from kit.model.arm import RUNTIME, USERNS, Arm
from kit.model.drivers import PARTIAL

#: Without this capability (linux/capability.h) no limit can be raised, and Podman's defaults exceed the usual limits.
_CAP_SYS_RESOURCE = 24
#: All Podman services of a machine share the locks in /dev/shm/libpod_lock, which the first one makes.
_STARTING = Lock()


class PodmanStarter:
    """Starts Podman's service, which has Docker's API for images and containers."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    def check(self, arm: Arm, host: Host) -> Blocker | None:
        """Without root it is rootless Podman, which needs ranges of user numbers (subuid(5))."""
        if host.root:
            blocked = self._installation.check(arm, host)
            return blocked or (None if self._installation.version else _missing_runtime())
        if arm.plain_root:
            return Blocker("only root can unpack a plain root filesystem", "run as root: sudo kit …")
        versioned = bool(self._installation.version)
        if blocked := runtime_blocker(arm, versioned) or namespace_blocker(arm, host.root, versioned):
            return blocked
        if blocked := self._installation.missing_tool(arm) or _missing_runtime():
            return blocked
        reason, fix = why_no_mapped_users("podman")
        return Blocker(reason, fix) if reason else None

    def start(
        self, stack: ExitStack, arm: Arm, backing_root: BackingRoot, name: str, options: Sequence[str]
    ) -> PodmanService:
        setting = self._installation.setting

        def service() -> PodmanService:
            home = self._installation.home(backing_root, name, f"podman-{arm.driver}", arm.rootless)
            kind = RootlessPodman if arm.rootless else PodmanService
            mapped = setting.user.account().name if arm.option(USERNS) == "auto" else ""
            partial = (PARTIAL, "") in arm.options
            return kind(arm.driver, home, options, partial, mapped, arm.option(RUNTIME), arm.plain_root)

        with _STARTING:
            return start_server(stack, setting, arm, backing_root.inputs, name, service)


def _missing_runtime() -> Blocker | None:
    try:
        require(oci_runtime())
    except MachineError as error:
        return Blocker(error.message, error.hint)
    return None


class ContainersStorage:
    """The storage drivers of Podman and Buildah. Their options are mount options of an overlay."""

    def options(self, stack: ExitStack, arm: Arm, backing_root: BackingRoot, name: str) -> Sequence[str]:
        return arm.feature_words

    def status(self, daemon: DockerServer) -> str:
        return shown_status(daemon)


class PodmanService(DockerServer):
    """``options``: mount options of its overlay. ``partial``: it pulls only the missing files of a layer, where the
    layer's format permits that. ``mapped``: the user whose subordinate users each container gets for itself
    (podman-run(1), --userns=auto), or ''. ``runtime``: the OCI runtime of all its containers; '' is runc, or crun.
    ``plain``: it enters a plain directory."""

    def __init__(
        self,
        driver: str,
        home: DaemonDirs,
        options: Sequence[str],
        partial: bool = False,
        mapped: str = "",
        runtime: str = "",
        plain: bool = False,
    ) -> None:
        super().__init__(driver, home, options)
        self._partial = partial
        self._mapped = mapped
        self._runtime = runtime
        self._plain = plain

    @property
    def rootless(self) -> bool:
        """Return whether it runs in a user namespace of an unprivileged user."""
        return os.geteuid() != 0

    @property
    def _temporary(self) -> Path:
        """Return the directory for copies of images. It lies in the data directory, as dockerd's does, and is removed
        with it."""
        return self.home.data / "tmp"

    def load(self, image: Image) -> None:
        super().load(image)
        # Podman 4 leaves a copy of each import.
        run(self.home.command("find", self._temporary, "-maxdepth", "1", "-name", "api_load.tar*", "-delete"))

    def clear_build_cache(self) -> None:
        """Remove the directories of cache mounts: no command of Podman's or Buildah's does."""
        for directory in self._temporary.glob("buildah-cache*"):
            safe_fs.remove(directory)

    def stop(self) -> None:
        super().stop()
        if os.geteuid() == 0 or not self.home.data.exists():
            return
        for pid in self.supervisor.pids:
            with suppress(ProcessLookupError):  # in the user namespace the service is a child of the started process
                os.killpg(pid, signal.SIGKILL)
        self._end_pause()
        # Its files belong to other users of the namespace; unshare mounts its overlay directory on itself.
        script = 'umount "$1/overlay" 2>/dev/null; rm -rf --one-file-system "$1"'
        words = [*self.client_words(), "unshare", "sh", "-c", script, "sh", str(self.home.data)]
        try:
            run(words, what="removing rootless Podman's storage")
        finally:
            self._end_pause()

    def _end_pause(self) -> None:
        """End the process that keeps the user namespace of rootless Podman."""
        pause = self.home.state / "t/pause.pid"
        if pause.exists():
            with suppress(ProcessLookupError):
                os.kill(int(pause.read_text()), signal.SIGKILL)
            pause.unlink()

    def client_words(self) -> list[str]:
        """Return the command line of podman, up to its subcommand."""
        # Rootless, the configuration's graphroot would leave the database in the user's own storage.
        storage_words = [f"--root={self.home.data}", f"--runroot={self.home.state / 'r'}"] if self.rootless else []
        return [
            *self.environment_words(),
            "podman",
            *storage_words,
            f"--tmpdir={self.home.state / 't'}",
            "--cgroup-manager=cgroupfs",
            "--events-backend=none",
        ]

    @property
    def limited(self) -> bool:
        """Return whether it can't raise limits, as its defaults would. Rootless, it lowers these itself
        (containers/podman, pkg/specgen/generate/oci_linux.go)."""
        return not self.rootless and not _may_raise_limits()

    def environment_words(self) -> list[str]:
        """Return the beginning of a command line that keeps the user's settings out."""
        return [
            "env",
            f"CONTAINERS_CONF={self.home.directory / 'containers.conf'}",
            f"CONTAINERS_STORAGE_CONF={self.home.directory / 'storage.conf'}",
            f"XDG_RUNTIME_DIR={self.home.state / 'x'}",
            f"TMPDIR={self._temporary}",  # else /var/tmp
            *([f"HOME={self.home.state / 'x'}"] if self.rootless else []),
        ]

    def runtime_name(self, runtime: str, plain: bool) -> str:
        return ""  # Docker's API can't request one (Podman 4.3): the service has the arm's

    def programs(self) -> Sequence[Program]:
        """Return the service's programs. Storage, state and configuration are the session's, never the user's."""
        (self.home.directory / "containers.conf").write_text("\n".join(self._settings()) + "\n")
        self.home.make_below(self.home.state / "x")
        self.home.make_below(self._temporary)
        (self.home.directory / "storage.conf").write_text("\n".join(self._storage()) + "\n")
        default_runtime, limited = "runc" if self.home.root.path else oci_runtime(), self.limited
        runtimes = {"": default_runtime, **self.runtimes(default_runtime, *(["inherit-limits"] if limited else []))}
        words = [
            *self.client_words(),
            # The program that enters a plain directory is the one that leaves out limits.
            f"--runtime={runtimes[requested_name(self._runtime, self._plain or limited)]}",
            "system",
            "service",
            "--time=0",
            f"unix://{self.served}",
        ]
        # With userns=auto it sizes a container's range by the file etc/group of its current directory, which in / is
        # the machine's (containers/storage, userns.go).
        elsewhere = "sh", "-c", 'cd "$0" && exec "$@"', str(self.home.state)
        return [Program("podman", [*elsewhere, *words], self.served)]

    def _settings(self) -> Iterator[str]:
        """Yield the lines of containers.conf(5)."""
        yield from ("[network]", f'network_config_dir = "{self.home.state / "n"}"')  # else a directory in /etc
        if self._mapped:
            yield from ("[containers]", 'userns = "auto"')
        if self.rootless:  # else in /dev/shm, which the user's own Podman shares: only root's sessions have their own
            yield from ("[engine]", 'lock_type = "file"')

    def _storage(self) -> Iterator[str]:
        """Yield the lines of containers-storage.conf(5)."""
        driver = "overlay" if self.driver == "fuse-overlayfs" else self.driver
        yield from ("[storage]", f'driver = "{driver}"', f'graphroot = "{self.home.data}"')
        yield from (f'runroot = "{self.home.state / "r"}"', "[storage.options]")
        if self._mapped:
            yield from (f'root-auto-userns-user = "{self._mapped}"', f"auto-userns-min-size = {RANGE}")
        if self._partial:
            yield 'pull_options = {enable_partial_images = "true"}'
        yield "[storage.options.overlay]"
        if driver != self.driver:
            yield f'mount_program = "{require("fuse-overlayfs")}"'
        if self.options:
            yield f'mountopt = "nodev,{",".join(self.options)}"'


class RootlessPodman(PodmanService):
    """Podman as a session of root's runs it for an unprivileged user."""

    @property
    def rootless(self) -> bool:
        return True

    @property
    def python(self) -> str:
        return "/usr/bin/python3"  # the kit's own may lie in a home of root's


def _may_raise_limits() -> bool:
    status = Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> _CAP_SYS_RESOURCE & 1)


def _engine(installation: Installation) -> PrivateEngine[PodmanService]:
    starter, client = PodmanStarter(installation), ContainerClient(installation)
    return PrivateEngine(installation, starter, ContainersStorage(), client)


TOOLS = ("podman", "conmon")
PODMAN = EngineKind("podman", TOOLS, _engine, tag="p", version_tag="pv")
