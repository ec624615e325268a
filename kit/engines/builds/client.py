"""Docker's client: which of the installed ones can build."""

from __future__ import annotations

import re
import shutil

from kit.core.errors import MachineError
from kit.host.command import CommandError, environment, require, run

#: From this version on the client needs a plugin for BuildKit.
_SPLIT = 23


def docker_client(buildkit: bool) -> str:
    """Return the path of the first ``docker`` that builds so. Raises MachineError with the package of a missing one."""
    require("docker", "docker.io")
    if not buildkit:
        return require("docker")
    for directory in environment()["PATH"].split(":"):
        client = shutil.which("docker", path=directory)
        if client and _has_buildkit(client):
            return client
    raise MachineError("no docker client here can use BuildKit", "run apt-get install docker-buildx")


def _has_buildkit(client: str) -> bool:
    said = re.search(r"\b(\d+)\.\d+", run([client, "--version"]))
    if said and int(said[1]) < _SPLIT:
        return True
    try:
        return bool(run([client, "buildx", "version"]))
    except CommandError:
        return False
