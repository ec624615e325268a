"""A private dockerd with its own containerd, which shares nothing with the user's Docker."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kit.engines.containerd_program import containerd_programs
from kit.engines.docker_server import DockerServer, requested_name
from kit.engines.supervisor import DaemonDirs, Program
from kit.model.drivers import find_driver, version_number

#: Bytes of a build step's output, in a second and in all. Only later versions read -1, which is without a limit.
_MOST_LOG = 1 << 30
#: Until this version the daemon makes a key in /etc/docker, unless it is told another place.
_KEY_UNTIL = 24
#: BuildKit before 0.10 never ends a build once it reads more than a mebibyte of output at a time (moby/buildkit,
#: control/control.go): it gets less. Docker has a later one since this version.
_LESS_LOG, _ENDS_SINCE = 1_000_000, 23


def log_words(most: int = _MOST_LOG) -> tuple[str, ...]:
    """Return the words before a daemon whose BuildKit cuts the output of a step after ``most`` bytes, and at no speed
    (moby/buildkit, util/progress/logs)."""
    return "env", f"BUILDKIT_STEP_LOG_MAX_SIZE={most}", f"BUILDKIT_STEP_LOG_MAX_SPEED={_MOST_LOG}"


class Dockerd(DockerServer):
    """``words``: further options of dockerd. ``version``: what it says of itself; '' is taken for an old one."""

    def __init__(
        self,
        driver: str,
        home: DaemonDirs,
        options: Sequence[str] = (),
        words: Sequence[str] = (),
        version: str = "",
    ) -> None:
        super().__init__(driver, home, options)
        self._more = words
        number = version_number(version.removeprefix("Docker version "))
        self._most_log = _MOST_LOG if number >= (_ENDS_SINCE,) else _LESS_LOG
        self._has_key = number < (_KEY_UNTIL,)

    def runtime_name(self, runtime: str, plain: bool) -> str:
        return requested_name(runtime, plain)

    def programs(self) -> Sequence[Program]:
        *before, containerd = containerd_programs(self.home, find_driver("docker", self.driver))
        words = [*self.command_line(), f"--containerd={containerd.socket}"]
        return *before, containerd, Program("dockerd", words, self.served)

    def command_line(self) -> list[str]:
        """Write the settings; return the command line of a dockerd that starts its own containerd."""
        driver = find_driver("docker", self.driver)
        state = self.home.state
        config = self.home.directory / "dockerd.json"
        # Do not read the user's /etc/docker/daemon.json.
        settings: dict[str, object] = {
            "features": {"containerd-snapshotter": driver is not None and driver.image_store}
        }
        if self._has_key:
            settings["deprecated-key-path"] = str(state / "key.json")
        config.write_text(json.dumps(settings))
        return [
            *log_words(self._most_log),
            "dockerd",
            f"--config-file={config}",
            f"--data-root={self.home.data}",
            f"--exec-root={state / 'exec'}",
            f"--host=unix://{self.served}",
            f"--pidfile={state / 'pid'}",
            f"--storage-driver={self.driver}",
            *(f"--add-runtime={name}={program}" for name, program in self.runtimes("runc").items()),
            "--exec-opt=native.cgroupdriver=cgroupfs",
            # Its network has a loopback interface alone (kit.host.namespace.own_network). In the machine's network it
            # would remove the bridge docker0 of the user's Docker.
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
            "--ip-masq=false",
            *(f"--storage-opt={option}" for option in self.options),
            *self._more,
        ]
