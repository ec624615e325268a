"""Docker's client: which of the installed ones can build, and in which environment."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from kit.core.errors import MachineError
from kit.host.command import CommandError, environment, install_fix, require, run

#: From this version on the client needs a plugin for BuildKit.
_SPLIT = 23


def client_environment(settings: Path) -> dict[str, str]:
    """Return the environment of a client that reads Docker's settings, without the user's settings and plugins."""
    return {**environment(), "DOCKER_CONFIG": str(settings), "HOME": str(settings)}


def docker_client(buildkit: bool, env: Mapping[str, str]) -> str:
    """Return the path of the first ``docker`` that can build, with BuildKit if ``buildkit``. ``env``: in which it
    will build. Raises MachineError that names the missing package."""
    first = require("docker")
    if not buildkit:
        return first
    for directory in environment()["PATH"].split(":"):
        client = shutil.which("docker", path=directory)
        if client and _has_buildkit(client, env):
            return client
    raise MachineError(
        "the installed docker client cannot use BuildKit", install_fix("docker-buildx|docker-buildx-plugin")
    )


def _has_buildkit(client: str, env: Mapping[str, str]) -> bool:
    version = re.search(r"\b(\d+)\.\d+", run([client, "--version"]))
    if version and int(version[1]) < _SPLIT:
        return True
    try:
        return bool(run([client, "buildx", "version"], env=env))
    except CommandError:
        return False
