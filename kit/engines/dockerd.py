"""A private dockerd with its own containerd, which shares nothing with the user's Docker."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kit.engines.containerd_program import containerd_program
from kit.engines.docker_server import PLAIN_RUNTIME, DockerServer
from kit.engines.supervisor import DaemonDirs, Program
from kit.model.drivers import find_driver

#: Bytes of a build step's output, and of a second's.
_MOST_LOG = 1 << 30
#: Runs a daemon whose BuildKit does not cut the output of a step: by size, and by speed (moby/buildkit,
#: util/progress/logs). It reads -1, without a limit, since later versions only.
UNCUT = ("env", f"BUILDKIT_STEP_LOG_MAX_SIZE={_MOST_LOG}", f"BUILDKIT_STEP_LOG_MAX_SPEED={_MOST_LOG}")


class Dockerd(DockerServer):
    """``words``: further options of dockerd."""

    def __init__(self, driver: str, home: DaemonDirs, options: Sequence[str] = (), words: Sequence[str] = ()) -> None:
        super().__init__(driver, home, options)
        self._more = words

    @property
    def runtime_name(self) -> str:
        return PLAIN_RUNTIME

    def programs(self) -> tuple[Program, ...]:
        containerd = containerd_program(self.home)
        directory = self.home.directory
        runtime = self.plain_runtime("runc")
        config = directory / "dockerd.json"
        # Do not read the user's /etc/docker/daemon.json.
        driver = find_driver("docker", self.driver)
        features = {"features": {"containerd-snapshotter": driver is not None and driver.image_store}}
        config.write_text(json.dumps(features))
        words = [
            *UNCUT,
            "dockerd",
            f"--config-file={config}",
            f"--data-root={self.home.data}",
            f"--exec-root={directory / 'exec'}",
            f"--host={self.host}",
            f"--pidfile={directory / 'pid'}",
            f"--containerd={containerd.socket}",
            f"--storage-driver={self.driver}",
            f"--add-runtime={PLAIN_RUNTIME}={runtime}",
            "--exec-opt=native.cgroupdriver=cgroupfs",
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
            "--ip-masq=false",
            *(f"--storage-opt={option}" for option in self.options),
            *self._more,
        ]
        return containerd, Program("dockerd", words, self.socket)
