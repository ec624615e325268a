"""Podman through its Docker-compatible service, one for each driver and backing filesystem."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from kit.arm import Arm
from kit.command import require, which
from kit.engines.daemon import PLAIN_RUNTIME, Daemon, Program
from kit.engines.docker import DockerEngine
from kit.engines.ground import Ground

#: What would make a driver work whose service does not start.
_FIXES = {
    "overlay": "boot a kernel with overlay",
    "fuse-overlayfs": "apt-get install fuse-overlayfs, and a kernel with FUSE",
    "btrfs": "put it on btrfs: layer:podman/btrfs@btrfs",
}


#: Without this capability (linux/capability.h) no limit can be raised, and Podman's defaults are above the usual ones.
_CAP_SYS_RESOURCE = 24


class PodmanEngine(DockerEngine):
    """What it does with images and containers is asked of it as of a Docker daemon."""

    root_of = "podman"
    tools = ("podman", "conmon")
    fixes = _FIXES
    prefix = "p"

    def make_daemon(self, stack: ExitStack, arm: Arm, ground: Ground, name: str) -> Daemon:
        return PodmanService(
            arm.driver,
            ground.backing.path / f"{name}-podman-{arm.driver}",
            self._setting.run / name,
            f"{self._setting.cgroup}/{name}",
            arm.feature_words,
        )


class PodmanService(Daemon):
    """``options``: mount options of its overlay."""

    @property
    def runtime_name(self) -> str:
        return str(self._directory / PLAIN_RUNTIME)

    def programs(self) -> Sequence[Program]:
        """Nothing of the user's: storage, state and configuration are the session's."""
        settings = self._directory / "containers.conf"
        settings.write_text("")
        storage = self._directory / "storage.conf"
        driver, options = self.driver, ""
        if driver == "fuse-overlayfs":
            driver, options = "overlay", f'[storage.options.overlay]\nmount_program = "{require("fuse-overlayfs")}"\n'
        if self._options:
            options = f'[storage.options.overlay]\nmountopt = "nodev,{",".join(self._options)}"\n'
        run_root = self._directory / "r"
        # Docker's OCI runtime where it is there: then the two differ in the engine alone. crun refuses cgroup hybrids.
        runtime, limited = "runc" if which("runc") else "crun", not _may_raise_limits()
        plain = self.plain_runtime(runtime, *(["inherit-limits"] if limited else []))
        storage.write_text(
            f'[storage]\ndriver = "{driver}"\ngraphroot = "{self._data}"\nrunroot = "{run_root}"\n{options}'
        )
        words = [
            "env",
            f"CONTAINERS_CONF={settings}",
            f"CONTAINERS_STORAGE_CONF={storage}",
            "podman",
            f"--tmpdir={self._directory / 't'}",
            "--cgroup-manager=cgroupfs",
            "--events-backend=none",
            f"--runtime={plain if limited else runtime}",
            "system",
            "service",
            "--time=0",
            self.host,
        ]
        return [Program("podman", words, Path(self.socket))]


def _may_raise_limits() -> bool:
    status = Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> _CAP_SYS_RESOURCE & 1)
