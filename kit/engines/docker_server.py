"""A private daemon that serves Docker's API, with its client: dockerd, or Podman's service."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from kit.core.errors import SESSION_LOG, RunError
from kit.engines import plain_runtime
from kit.engines.container import load_image
from kit.engines.oci_runtime import installed_runtimes, write_program
from kit.engines.supervisor import PATIENCE, DaemonDirs, Program, Supervisor
from kit.image import Image

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
        directory. ``words``: options of kit.engines.plain_runtime."""
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
