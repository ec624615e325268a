"""A private dockerd with a containerd of its own: nothing of it is shared with the user's Docker."""

from __future__ import annotations

import json
import logging
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.core.errors import RunError
from kit.engines import plain_runtime
from kit.engines.root import EngineRoot
from kit.filesystem.block import unmount
from kit.host.cgroup import Cgroup
from kit.host.command import spawn, stop
from kit.host.mounts import mounts_below
from kit.model.drivers import find_driver

log = logging.getLogger(__name__)

#: The name under which dockerd knows the runtime of the ``runtime`` arm.
PLAIN_RUNTIME = "kit-plain"


@dataclass(frozen=True)
class Program:
    """A program that serves on a socket once it is up."""

    name: str
    argv: Sequence[str]
    socket: Path


class Daemon:
    """``data`` is its data-root on the backing filesystem, ``directory`` a short one for sockets, pidfile and log.
    ``root``: the engine root that both daemons run in, ``shared``: what they see of the host's
    there. ``words``: more options of dockerd."""

    def __init__(
        self,
        driver: str,
        data: Path,
        directory: Path,
        cgroup: str,
        options: Sequence[str] = (),
        root: EngineRoot | None = None,
        shared: Sequence[Path] = (),
        words: Sequence[str] = (),
    ) -> None:
        self.driver = driver
        self.socket = directory / "s"
        self.host = f"unix://{self.socket}"
        self.container_cgroup = f"/{cgroup}-containers"
        self.client: Any = None
        self._data = data
        self._directory = directory
        self._options = options
        self._more = words
        self._root = root or EngineRoot()
        self._shared = shared
        self._log = directory / "dockerd.log"
        self._group_name = cgroup
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start its programs and wait until they serve. Raises RunError with what the log says; then stop it too."""
        self._directory.mkdir(mode=0o700)
        self._data.mkdir(parents=True)
        for program in self.programs():
            self._spawn(program.name, program.argv)
            self._wait(program.name, program.socket)
        self._connect()

    def programs(self) -> Sequence[Program]:
        """In the order in which they are started; the last one serves the engine's API."""
        return (
            Program("containerd", ["containerd", "--config", str(self._containerd_config())], self._directory / "c"),
            Program("dockerd", self._dockerd_argv(), self.socket),
        )

    def _spawn(self, name: str, argv: Sequence[str]) -> None:
        with self._log.open("ab") as output:
            self._processes[name] = spawn(
                self.inside(argv) if self._processes else self._root.enter(argv, self._shared),
                output=output,
                cgroup_procs=Cgroup.named(self._group_name).create().procs if os.geteuid() == 0 else (),
            )

    def inside(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs ``argv`` where its programs run."""
        return self._root.join(argv, next(iter(self._processes.values())).pid)

    def _connect(self) -> None:
        import docker

        deadline = time.monotonic() + 60
        while True:
            try:
                self.client = docker.DockerClient(base_url=self.host, timeout=600)
                self.client.ping()
                return
            except Exception as error:  # docker-py lets errors of requests and urllib3 through while it starts
                if self.alive() or time.monotonic() > deadline:
                    raise RunError(
                        f"it does not serve: {self.alive() or error}",
                        "see session.log, in the directory of the session's logs",
                    ) from None
                time.sleep(0.02)

    def alive(self) -> str:
        """Why it is dead, or ''."""
        for name, process in self._processes.items():
            status = process.poll()
            if status is not None:
                how = f"killed by signal {-status}" if status < 0 else self.last_words()
                return f"{name} died: {how}"
        return ""

    def last_words(self) -> str:
        """The last error in its log, else its last line."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        loud = [line for line in lines if "level=fatal" in line or "level=error" in line or line.startswith("failed")]
        line = (loud or lines or ["it said nothing"])[-1]
        return line.partition("msg=")[2].strip('"') or line

    def stop(self) -> None:
        """Stop both daemons and unmount what dockerd leaves mounted below its roots."""
        if self.client is not None:
            self.client.close()
        for name in reversed(self._processes):
            stop(self._processes[name], patience=20)
        if self._log.exists():
            log.debug("log of dockerd and containerd, %s:\n%s", self.driver, self._log.read_text(errors="replace"))
        for name in (self._group_name, self.container_cgroup.lstrip("/")):
            Cgroup.named(name).remove()  # shims and containers outlive a daemon that was killed
        for mount in (*mounts_below(self._directory), *mounts_below(self._data)):
            unmount(mount.path)

    def _containerd_config(self) -> Path:
        """containerd alone serves on a socket of its own: dockerd would otherwise join the system's if one runs."""
        path = self._directory / "containerd.toml"
        lines = [
            "version = 2",
            f"root = {json.dumps(str(self._data / 'containerd'))}",
            f"state = {json.dumps(str(self._directory / 'containerd'))}",
            'disabled_plugins = ["io.containerd.grpc.v1.cri"]',
            "[grpc]",
            f"address = {json.dumps(str(self._directory / 'c'))}",
        ]
        path.write_text("\n".join(lines) + "\n")
        return path

    def _dockerd_argv(self) -> list[str]:
        runtime = self.plain_runtime("runc")
        config = self._directory / "dockerd.json"
        driver = find_driver("docker", self.driver)
        # Not the user's /etc/docker/daemon.json.
        features = {"features": {"containerd-snapshotter": driver is not None and driver.image_store}}
        config.write_text(json.dumps(features))
        return [
            "dockerd",
            f"--config-file={config}",
            f"--data-root={self._data}",
            f"--exec-root={self._directory / 'exec'}",
            f"--host={self.host}",
            f"--pidfile={self._directory / 'pid'}",
            f"--containerd={self._directory / 'c'}",
            f"--storage-driver={self.driver}",
            f"--add-runtime={PLAIN_RUNTIME}={runtime}",
            "--exec-opt=native.cgroupdriver=cgroupfs",
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
            "--ip-masq=false",
            *(f"--storage-opt={option}" for option in self._options),
            *self._more,
        ]

    @property
    def runtime_name(self) -> str:
        """How a container asks for the plain runtime."""
        return PLAIN_RUNTIME

    def plain_runtime(self, *words: str) -> Path:
        """The program that the engine calls as OCI runtime: kit.engines.plain_runtime with ``words``."""
        python = "/usr/bin/python3" if self._root.path else sys.executable
        program = str(shutil.copy(plain_runtime.__file__, self._directory))
        path = self._directory / PLAIN_RUNTIME
        path.write_text(f'#!/bin/sh\nexec {shlex.join((python, "-I", program, *words))} -- "$@"\n')
        path.chmod(0o755)
        return path

    def _wait(self, name: str, path: Path) -> None:
        deadline = time.monotonic() + 60
        while not path.exists():
            if self._processes[name].poll() is not None:
                raise RunError(
                    f"{name} does not start: {self.last_words()}",
                    "see session.log, in the directory of the session's logs",
                )
            if time.monotonic() > deadline:
                raise RunError(
                    f"{name} does not start within 60 s", "see session.log, in the directory of the session's logs"
                )
            time.sleep(0.01)
