"""Where the kit keeps things on this machine. ``KIT_HOME`` puts all of it under one directory."""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import MachineError

APP = "storage-driver-test-kit"
_LOCK = Path("/run")


@dataclass(frozen=True)
class Paths:
    data: Path  # the store and the logs of runs: what a user wants to keep
    cache: Path  # images, sources, the probe: can be made again
    state: Path  # journals and loop images of running sessions
    run: Path  # sockets: must be short, a Unix socket's path holds 107 bytes
    lock: Path  # a directory that is always there: one for the machine, two sessions would measure each other


def find_paths() -> Paths:
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


def make_private(directory: Path, mode: int = 0o700) -> None:
    """Make a directory in which nobody else can put anything; one that is there must be such a one, and gets ``mode``.
    Raises MachineError where it is a link, somebody else's, or where others may write."""
    try:
        with suppress(FileExistsError):
            directory.mkdir(mode, parents=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        what = "it is a link" if directory.is_symlink() else os.strerror(error.errno or 0)
        raise _unusable(directory, what) from None
    try:
        info = os.fstat(descriptor)
        if info.st_uid != os.geteuid():
            raise _unusable(directory, f"it belongs to {user_name(info.st_uid)}, not to {user_name(os.geteuid())}")
        if info.st_mode & 0o022:
            raise _unusable(directory, "others may write to it")
        if stat.S_IMODE(info.st_mode) != mode:
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def _unusable(directory: Path, reason: str) -> MachineError:
    hint = "look what is in it and remove it, or name directories of your own with KIT_HOME and XDG_RUNTIME_DIR"
    return MachineError(f"the kit can't use {directory}: {reason}", hint)


def user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def resource(kind: str) -> Path:
    """The directory of bundled ``scenarios`` or ``images``: inside an installed kit, or beside a checkout's."""
    here = Path(__file__).resolve().parent.parent
    installed = here / "_data" / kind
    return installed if installed.is_dir() else here.parent / kind
