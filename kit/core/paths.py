"""The kit's files on this machine. ``KIT_HOME`` puts all of them under one directory."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from kit.core.trusted import check_place

APP = "storage-driver-test-kit"
_LOCK = Path("/run")
#: The root directory of the first process in sight.
_FIRST_ROOT = Path("/proc/1/root")
_CONFIG = "config.toml"
#: Letters that distinguish run directories of one user.
_LABEL = 6


@dataclass(frozen=True)
class Paths:
    data: Path  # the store and the logs of runs: what a user wants to keep
    cache: Path  # images, sources, the probe: can be rebuilt
    state: Path  # journals and loop images of running sessions
    run: Path  # sockets: must be short, a Unix socket's path holds 107 bytes
    lock: Path  # a directory that is always there: one for the machine, two sessions would measure each other

    @property
    def store(self) -> Path:
        """Return the default file of the store."""
        return self.data / "kit.db"

    @property
    def journals(self) -> Path:
        return self.state / "journal"

    @property
    def loops(self) -> Path:
        """Return the directory of files behind loop devices."""
        return self.state / "loops"

    def logs(self, session: str) -> Path:
        """Return the directory of that session's logs: runs, load, downloads, guest console, and the session itself."""
        return self.data / "logs" / session


def find_paths() -> Paths:
    """Return this user's paths. Raises MachineError if another user owns or could replace one of the directories.
    Programs in the cache are run, journals and records obeyed."""
    paths = _find_paths()
    for directory in (paths.data, paths.cache, paths.state):
        check_place(directory)
    return paths


def _find_paths() -> Paths:
    home = os.environ.get("KIT_HOME")
    if home:
        base = Path(home).absolute()
        return Paths(base / "data", base / "cache", base / "state", _run_directory(), _lock())
    from platformdirs import PlatformDirs

    dirs = PlatformDirs(APP, appauthor=False)
    return Paths(
        Path(dirs.user_data_dir), Path(dirs.user_cache_dir), Path(dirs.user_state_dir), _run_directory(), _lock()
    )


def config_file() -> Path:
    """Return the file of this user's settings, which may be missing."""
    home = os.environ.get("KIT_HOME")
    if home:
        return Path(home).absolute() / _CONFIG
    from platformdirs import PlatformDirs

    return Path(PlatformDirs(APP, appauthor=False).user_config_dir) / _CONFIG


def machine_root(first: Path = _FIRST_ROOT) -> Path:
    """Return the machine's root directory. In a container that sees the machine's processes (docker run --pid=host) it
    is that of the first process; else it is /, also where that process can't be looked at."""
    try:
        return Path("/") if first.samefile("/") else first
    except OSError:
        return Path("/")


def _lock(first: Path = _FIRST_ROOT) -> Path:
    """Return the machine's /run: a container has one of its own, too."""
    machine = machine_root(first) / _LOCK.relative_to("/")
    return machine if machine.is_dir() else _LOCK


def _run_directory() -> Path:
    if os.geteuid() == 0:
        return Path("/run/kit")
    runtime_directory = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime_directory) / "kit" if runtime_directory else Path(f"/tmp/kit-{os.geteuid()}")


def apart(paths: Paths) -> Paths:
    """Return paths with their own lock and run directory, for another state directory on this machine."""
    label = hashlib.sha256(str(paths.state).encode()).hexdigest()[:_LABEL]
    return replace(paths, lock=paths.state / "lock" / "machine", run=paths.run.with_name(f"{paths.run.name}-{label}"))


def is_run_directory(path: str) -> bool:
    """Return whether a user's paths may have this directory as ``run``."""
    return bool(re.fullmatch(rf"(/[^/]+)+/kit(-[0-9]+)?(-[0-9a-f]{{{_LABEL}}})?", path)) and "/../" not in path


def resource(kind: str) -> Path:
    """Return the directory of bundled ``scenarios``, ``images`` or ``docs``: in an installed kit, or beside a
    checkout's."""
    here = Path(__file__).resolve().parent.parent
    installed = here / "_data" / kind
    return installed if installed.is_dir() else here.parent / kind
