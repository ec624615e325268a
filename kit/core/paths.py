"""Where the kit keeps things on this machine. ``KIT_HOME`` puts all of it under one directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kit.core.private import check_place

APP = "storage-driver-test-kit"
_LOCK = Path("/run")


@dataclass(frozen=True)
class Paths:
    data: Path  # the store and the logs of runs: what a user wants to keep
    cache: Path  # images, sources, the probe: can be made again
    state: Path  # journals and loop images of running sessions
    run: Path  # sockets: must be short, a Unix socket's path holds 107 bytes
    lock: Path  # a directory that is always there: one for the machine, two sessions would measure each other

    @property
    def store(self) -> Path:
        """The file of the store, where none is named."""
        return self.data / "kit.db"

    @property
    def journals(self) -> Path:
        return self.state / "journal"

    @property
    def loops(self) -> Path:
        """Files that disks of loop devices are."""
        return self.state / "loops"

    def logs(self, session: str) -> Path:
        """What that session logs: its runs, its load, what it fetched, its guest's console, and itself."""
        return self.data / "logs" / session


def find_paths() -> Paths:
    """Return this user's paths. Raises MachineError where somebody else has put one of the directories there, or could:
    programs in the cache are run, journals and records obeyed."""
    paths = _find_paths()
    for directory in (paths.data, paths.cache, paths.state):
        check_place(directory)
    return paths


def _find_paths() -> Paths:
    home = os.environ.get("KIT_HOME")
    if home:
        base = Path(home).absolute()
        return Paths(base / "data", base / "cache", base / "state", _run_directory(), _LOCK)
    from platformdirs import PlatformDirs

    dirs = PlatformDirs(APP, appauthor=False)
    return Paths(
        Path(dirs.user_data_dir), Path(dirs.user_cache_dir), Path(dirs.user_state_dir), _run_directory(), _LOCK
    )


def _run_directory() -> Path:
    if os.geteuid() == 0:
        return Path("/run/kit")
    given = os.environ.get("XDG_RUNTIME_DIR")
    return Path(given) / "kit" if given else Path(f"/tmp/kit-{os.geteuid()}")


def resource(kind: str) -> Path:
    """The directory of bundled ``scenarios`` or ``images``: inside an installed kit, or beside a checkout's."""
    here = Path(__file__).resolve().parent.parent
    installed = here / "_data" / kind
    return installed if installed.is_dir() else here.parent / kind
