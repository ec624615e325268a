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
from kit.engines.supervisor import PATIENCE, Home, Program, Supervisor
from kit.image import Image

#: The name of the runtime of the ``runtime`` arm.
PLAIN_RUNTIME = "kit-plain"


class DockerServer(ABC):
    """``options``: of the storage driver. ``client`` is there while it runs."""

    def __init__(self, driver: str, home: Home, options: Sequence[str] = ()) -> None:
        self.driver = driver
        self.home = home
        self.options = options
        self.socket = home.directory / "s"
        self.host = f"unix://{self.socket}"
        self.client: Any = None  # docker.DockerClient
        self.supervisor = Supervisor(home, driver)

    @abstractmethod
    def programs(self) -> Iterable[Program]:
        """In the order in which they are started; the last one serves Docker's API."""

    @property
    @abstractmethod
    def runtime_name(self) -> str:
        """How a container asks for the plain runtime."""

    def start(self) -> None:
        """Start it and wait until it serves. Raises RunError with what the log says; then stop it too."""
        self.home.make()
        self.supervisor.start(self.programs())
        self.client = _connect(self.host, self.alive)

    def load(self, image: Image) -> None:
        """Bring an image in. Raises what docker-py does."""
        load_image(self.client, image)

    def stop(self) -> None:
        if self.client is not None:
            self.client.close()
        self.supervisor.stop()

    def alive(self) -> str:
        """Why it is dead, or ''."""
        return self.supervisor.alive()

    def plain_runtime(self, *words: str) -> Path:
        """The program that the engine calls as OCI runtime: kit.engines.plain_runtime with ``words``."""
        python = "/usr/bin/python3" if self.home.root.path else sys.executable
        program = str(shutil.copy(plain_runtime.__file__, self.home.directory))
        path = self.home.directory / PLAIN_RUNTIME
        mend = shlex.join((python, "-I", program, *words))
        # Of the many calls for each container one alone has something to mend.
        path.write_text(f'#!/bin/sh\ncase " $* " in *" create "*) exec {mend} -- "$@" ;; esac\nexec {words[0]} "$@"\n')
        path.chmod(0o755)
        return path


def _connect(host: str, alive: Callable[[], str]) -> Any:
    import docker

    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            client = docker.DockerClient(base_url=host, timeout=600)
            client.ping()
            return client
        except Exception as error:  # docker-py lets errors of requests and urllib3 through while it starts
            if alive() or time.monotonic() > deadline:
                raise RunError(f"it does not serve: {alive() or error}", SESSION_LOG) from None
            time.sleep(0.02)
