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
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def data_root(configuration: Mapping[str, Any]) -> Path:
    """Return the directory in which that Docker keeps images and containers."""
    found = configuration.get("data-root")
    return Path(found if isinstance(found, str) and found else _DATA_ROOT)
