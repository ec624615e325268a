"""The Docker that the kit would run: asks its dockerd, and the configuration and data of this machine's daemon."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from kit.core.errors import KitError
from kit.host.command import run, which
from kit.model.drivers import Docker, graph_drivers, keeping_drivers

CONFIGURATION = Path("/etc/docker/daemon.json")
_DATA_ROOT = "/var/lib/docker"


def read_configuration(path: Path = CONFIGURATION) -> Mapping[str, Any]:
    """Return its keys and values; none if the file is missing, or dockerd itself would refuse it."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return settings if isinstance(settings, dict) else {}


def data_root(configuration: Mapping[str, Any]) -> Path:
    """Return the directory in which that Docker keeps images and containers."""
    directory = configuration.get("data-root")
    return Path(directory if isinstance(directory, str) and directory else _DATA_ROOT)


def installed_docker(programs: Path | None = None, configuration: Path = CONFIGURATION) -> Docker:
    """Return the Docker on PATH, with this machine's configuration and data; or the one in the directory ``programs``,
    which these do not concern. Without a dockerd its version is ''."""
    dockerd = which("dockerd") if programs is None else str(programs / "dockerd")
    if not dockerd:
        return Docker()
    version = version_of(Path(dockerd))
    if programs is not None:
        return Docker(version)
    settings = read_configuration(configuration)
    return Docker(version, _image_store(settings), _kept(data_root(settings), version))


def version_of(program: Path) -> str:
    """Return the version that a program reports, 29.1.0 for example; '' if it reports none."""
    try:
        return _version(program, program.stat().st_mtime_ns)
    except (KitError, OSError):
        return ""


@lru_cache
def _version(program: Path, changed: int) -> str:
    number = re.search(r"\bv?(\d+\.[\w.+~-]+)", run([program, "--version"]))
    return number[1] if number else ""


def _image_store(configuration: Mapping[str, Any]) -> bool | None:
    """Return whether the configuration switches containerd's image store on or off; None if it does neither. A graph
    driver that it names, or mapped users, switch the store off, as in dockerd itself."""
    features = configuration.get("features")
    switched = features.get("containerd-snapshotter") if isinstance(features, dict) else None
    if isinstance(switched, bool):
        return switched
    graph_driver = configuration.get("storage-driver") in [driver.name for driver in graph_drivers()]
    return False if graph_driver or configuration.get("userns-remap") else None


def _kept(root: Path, version: str) -> str:
    """Return the first graph driver that has data in a data-root; '' without one, and where this user may not look."""
    return next((name for name in keeping_drivers(version) if _has_entry(root / name)), "")


def _has_entry(directory: Path) -> bool:
    try:
        return any(directory.iterdir())
    except OSError:
        return False
