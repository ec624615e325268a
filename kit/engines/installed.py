"""The Docker that the kit would run: asks its dockerd, and the configuration of this machine's daemon."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path

from kit.core.errors import KitError
from kit.host.command import run, which
from kit.model.default_driver import Docker
from kit.model.drivers import graph_drivers

#: The configuration of the machine's own daemon (dockerd(8)).
CONFIGURATION = Path("/etc/docker/daemon.json")


def installed_docker(programs: Path | None = None, configuration: Path = CONFIGURATION) -> Docker:
    """Return the Docker on PATH, with this machine's configuration; or the one in the directory ``programs``, which
    that configuration does not concern. Without a dockerd its version is ''."""
    dockerd = which("dockerd") if programs is None else str(programs / "dockerd")
    if not dockerd:
        return Docker()
    return Docker(version_of(Path(dockerd)), _image_store(configuration) if programs is None else None)


def version_of(program: Path) -> str:
    """Return the version that a program reports, 29.1.0 for example; '' if it reports none."""
    try:
        return _version(program, program.stat().st_mtime_ns)
    except (KitError, OSError):
        return ""


@lru_cache
def _version(program: Path, changed: int) -> str:
    found = re.search(r"\bv?(\d+\.[\w.+~-]+)", run([program, "--version"]))
    return found[1] if found else ""


def _image_store(configuration: Path) -> bool | None:
    """Return whether the configuration switches containerd's image store on or off; None if it does neither. A graph
    driver that it names, or mapped users, switch the store off, as in dockerd itself."""
    try:
        found = json.loads(configuration.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # dockerd itself would refuse it
        return None
    if not isinstance(found, dict):
        return None
    features = found.get("features")
    wanted = features.get("containerd-snapshotter") if isinstance(features, dict) else None
    if isinstance(wanted, bool):
        return wanted
    named = found.get("storage-driver") in [driver.name for driver in graph_drivers()]
    return False if named or found.get("userns-remap") else None
