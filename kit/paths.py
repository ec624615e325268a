"""Where the kit keeps things on this machine. ``KIT_HOME`` puts all of it under one directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

APP = "storage-driver-test-kit"


@dataclass(frozen=True)
class Paths:
    data: Path  # the store and the logs of runs: what a user wants to keep
    cache: Path  # images, sources, the probe: can be made again
    state: Path  # journals and loop images of running sessions
    run: Path  # sockets: must be short, a Unix socket's path holds 107 bytes
    lock: Path


def find_paths() -> Paths:
    home = os.environ.get("KIT_HOME")
    if home:
        base = Path(home).absolute()
        return Paths(base / "data", base / "cache", base / "state", _run_directory(), _lock_file())
    from platformdirs import PlatformDirs

    dirs = PlatformDirs(APP, appauthor=False)
    return Paths(
        Path(dirs.user_data_dir), Path(dirs.user_cache_dir), Path(dirs.user_state_dir), _run_directory(), _lock_file()
    )


def _run_directory() -> Path:
    if os.geteuid() == 0:
        return Path("/run/kit")
    return Path(os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/kit-{os.getuid()}") / "kit"


def _lock_file() -> Path:
    """One for the machine, not one for each user: two sessions would measure each other."""
    shared = Path("/run/lock")
    return (shared if shared.is_dir() and os.access(shared, os.W_OK) else Path("/tmp")) / f"{APP}.lock"


def resource(kind: str) -> Path:
    """The directory of bundled ``scenarios`` or ``images``: inside an installed kit, or beside a checkout's."""
    here = Path(__file__).resolve().parent
    installed = here / "_data" / kind
    return installed if installed.is_dir() else here.parent / kind
