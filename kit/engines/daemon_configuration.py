"""The configuration of the machine's own Docker (dockerd(8), daemon.json)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
