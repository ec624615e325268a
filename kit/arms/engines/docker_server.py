"""A private daemon that serves Docker's API, with its client: dockerd, or Podman's service."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from kit.arms.engines import plain_runtime
from kit.arms.engines.container import load_image
from kit.arms.engines.containerd_program import containerd_programs
from kit.arms.engines.oci_runtime import installed_runtimes, write_program
from kit.arms.engines.supervisor import PATIENCE, DaemonDirs, Program, Supervisor
from kit.arms.image import Image
from kit.core.errors import SESSION_LOG, RunError
from kit.model.drivers import find_driver, version_number

#: The name of the runtime of the ``runtime`` arm. With a named runtime, its name follows.
PLAIN_RUNTIME = "kit-plain"


def requested_name(runtime: str, plain: bool) -> str:
    """Return the name of a program that ``DockerServer.runtimes`` returns; '' for the engine's own."""
    if plain:
        return f"{PLAIN_RUNTIME}-{runtime}" if runtime else PLAIN_RUNTIME
    return f"kit-{runtime}" if runtime else ""


class DockerServer(ABC):
    """``options``: of the storage driver. ``client`` exists while the daemon runs. ``inputs``: where the daemon finds
    the session's. ``served``: its socket. ``socket``: the name of that by which this process and arms reach it, in a
    directory in which its user can exchange nothing."""

    def __init__(self, driver: str, home: DaemonDirs, options: Sequence[str] = ()) -> None:
        self.driver = driver
        self.home = home
        self.options = options
        self.served, self.socket = home.state / "s", home.directory / "s"
        self.host = f"unix://{self.socket}"
        self.client: Any = None  # docker.DockerClient
        self.supervisor = Supervisor(home, driver)
        self.inputs: Path | None = None

    @abstractmethod
    def programs(self) -> Iterable[Program]:
        """Return the programs in the order of their start; the last one serves Docker's API."""

    @abstractmethod
    def runtime_name(self, runtime: str, plain: bool) -> str:
        """Return the name by which a container requests a runtime; '' is the engine's own. ``plain``: one that enters a
        plain directory."""

    def start(self) -> None:
        """Start the daemon and wait until it serves. Raises RunError with the log's message; stop it then too."""
        self.home.make()
        self.supervisor.start(self.programs())
        if self.home.user:
            self.home.user.hand_over(self.served, self.socket)
        self.client = _connect(self.host, self.alive)

    def load(self, image: Image) -> None:
        """Load an image. Raises the errors of docker-py."""
        load_image(self.client, image)

    def stop(self) -> None:
        if self.client is not None:
            self.client.close()
        self.supervisor.stop()

    def alive(self) -> str:
        """Return why the daemon is dead, or ''."""
        return self.supervisor.alive()

    def runtimes(self, own: str, *words: str) -> dict[str, str]:
        """Write the programs that the engine calls as OCI runtimes. Return them by the names that containers use:
        those of the host and the engine's ``own``, which it finds itself, and for each one that enters a plain
        directory. ``words``: options of kit.arms.engines.plain_runtime."""
        runtimes = {**({} if self.home.root.path else installed_runtimes(self.home.programs)), own: own}
        with_tree = {f"kit-{name}": program for name, program in runtimes.items()}
        plain = {PLAIN_RUNTIME: own, **{f"{PLAIN_RUNTIME}-{name}": program for name, program in runtimes.items()}}
        return with_tree | {name: str(self._plain_runtime(name, program, *words)) for name, program in plain.items()}

    @property
    def python(self) -> str:
        """Return the Python that the engine finds, and may run."""
        return "/usr/bin/python3" if self.home.root.path else sys.executable

    def _plain_runtime(self, name: str, *words: str) -> Path:
        program = str(shutil.copy(plain_runtime.__file__, self.home.programs))
        mend = shlex.join((self.python, "-I", program, *words))
        # Of the many calls for each container, only one needs a change.
        command = f'case " $* " in *" create "*) exec {mend} -- "$@" ;; esac\nexec {words[0]} "$@"'
        return write_program(self.home.programs, name, command)


def _connect(host: str, alive: Callable[[], str]) -> Any:
    import docker

    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            client = docker.DockerClient(base_url=host, timeout=600)
            client.ping()
            return client
        except Exception as error:  # docker-py passes on errors of requests and urllib3 while it starts
            if alive() or time.monotonic() > deadline:
                raise RunError(f"its daemon does not answer: {alive() or error}", SESSION_LOG) from None
            time.sleep(0.02)


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
