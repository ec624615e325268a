"""The files with settings: the project's ``kit.toml`` and ``pyproject.toml``, and the user's own."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from kit.core.errors import UsageError
from kit.core.paths import config_file
from kit.core.regular import decode_text, read_text
from kit.core.trusted import open_believed, sudo_caller
from kit.host.mounts import read_mounts
from kit.model.settings import ConfigEntry, merged, read_settings

PROJECT, PYPROJECT, TABLE = "kit.toml", "pyproject.toml", "tool.kit"
_HINT = "make it a file of your own that you may read, no link, or remove it"

#: Filesystems whose files show what other processes say.
_KERNELS = frozenset({"proc", "sysfs", "cgroup", "cgroup2", "configfs", "debugfs", "tracefs"})


def find_settings(directory: Path | None = None) -> dict[str, ConfigEntry]:
    """Return the settings that hold in a directory, by default the current one. Raises UsageError."""
    return merged(entry for path, table in settings_files(directory) for entry in _read(path, table))


def configured_store(directory: Path | None = None) -> str:
    """Return the store's URL of the settings; '' without one. Raises UsageError."""
    entry = find_settings(directory).get("store")
    return str(entry.value) if entry else ""


def settings_files(directory: Path | None = None) -> Iterator[tuple[Path, str]]:
    """Return the existing files by precedence, with the table that has the settings: those of the nearest directory
    above with any, then the user's own. A directory that is unreadable or deleted, or to which everybody may write, as
    /tmp, has none. Raises UsageError."""
    for parent in _upwards(directory or Path()):
        if _is_everybodys(parent):
            continue
        candidates = [(parent / PROJECT, ""), (parent / PYPROJECT, TABLE)]
        existing = [(path, table) for path, table in candidates if _has(path, table)]
        if existing:
            yield from existing
            break
    user_file = config_file()
    if _has(user_file, ""):
        yield user_file, ""


def _upwards(directory: Path) -> Sequence[Path]:
    """Return the directory and those above it; nothing if it is the current one and was deleted."""
    try:
        place = directory.absolute()
    except FileNotFoundError:
        return ()
    return (place, *place.parents)


def _is_everybodys(directory: Path) -> bool:
    try:
        return bool(directory.stat().st_mode & 0o002)
    except OSError:
        return False


def _has(path: Path, table: str) -> bool:
    """Return whether the file exists and has settings: a pyproject.toml without the table, or one that is broken, is
    another program's. A directory that may not be searched has no file."""
    begin = re.compile(rf"^\s*\[{re.escape(table)}[\].]", re.MULTILINE)
    try:
        return path.is_file() and (not table or bool(begin.search(read_text(path, _HINT))))
    except (OSError, UsageError):
        return False


def _read(path: Path, table: str) -> tuple[ConfigEntry, ...]:
    """Return the settings of a file that this user, root or the caller of sudo has written: settings name programs.
    Raises UsageError."""
    owners = sudo_caller()
    try:
        with open_believed(path, owners) as file:
            _check_filesystem(path, os.fstat(file.fileno()).st_dev, {0, os.geteuid(), *owners})
            text = decode_text(file, path, _HINT)
    except OSError as error:
        what = "a link" if path.is_symlink() else error.strerror
        raise UsageError(f"{path}: {what}", _HINT) from None
    return read_settings(text, str(path), table)


def _check_filesystem(path: Path, device: int, believed: Collection[int]) -> None:
    """Check that a file's owner has written its text: in /proc others have, and a FUSE daemon names owners as it likes
    (mount.fuse(8), user_id). Raises UsageError."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for mount in read_mounts():
        user = re.search(r"\buser_id=(\d+)", mount.shared)
        if mount.device == number and (mount.type in _KERNELS or (user and int(user[1]) not in believed)):
            raise UsageError(f"{path} is not obeyed: it lies on {mount.type}", "run kit in a directory of your own")
