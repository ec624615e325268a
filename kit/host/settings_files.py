"""The files with settings: the project's ``kit.toml`` and ``pyproject.toml``, and the user's own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kit.core.errors import UsageError
from kit.core.paths import config_file
from kit.core.private import close_command, user_name
from kit.core.regular import read_text
from kit.model.settings import ConfigEntry, merged, read_settings

PROJECT, PYPROJECT, TABLE = "kit.toml", "pyproject.toml", "tool.kit"
_HINT = "make it a file that you may read, or remove it"


def find_settings(directory: Path | None = None) -> dict[str, ConfigEntry]:
    """Return the settings that hold in a directory, by default the current one. Raises UsageError."""
    return merged(item for path, table in settings_files(directory) for item in _read(path, table))


def configured_store(directory: Path | None = None) -> str:
    """Return the store's URL of the settings; '' without one. Raises UsageError."""
    found = find_settings(directory).get("store")
    return str(found.value) if found else ""


def settings_files(directory: Path | None = None) -> Iterator[tuple[Path, str]]:
    """Return the existing files by precedence, with the table that has the settings: those of the nearest directory
    above with any, then the user's own. A directory that is unreadable or deleted has none. Raises UsageError."""
    for parent in _upwards(directory or Path()):
        found = [(parent / PROJECT, ""), (parent / PYPROJECT, TABLE)]
        mine = [(path, table) for path, table in found if _has(path, table)]
        if mine:
            yield from mine
            break
    own = config_file()
    if _has(own, ""):
        yield own, ""


def _upwards(directory: Path) -> Sequence[Path]:
    """Return the directory and those above it; nothing if it is the current one and was deleted."""
    try:
        place = directory.absolute()
    except FileNotFoundError:
        return ()
    return (place, *place.parents)


def _has(path: Path, table: str) -> bool:
    """Return whether the file exists and has settings: a pyproject.toml without the table, or one that is broken, is
    another program's. A directory that may not be searched has no file."""
    begin = re.compile(rf"^\s*\[{re.escape(table)}[\].]", re.MULTILINE)
    try:
        return path.is_file() and (not table or bool(begin.search(read_text(path, _HINT))))
    except (OSError, UsageError):
        return False


def _read(path: Path, table: str) -> tuple[ConfigEntry, ...]:
    """Return the settings of a file that this user, root or the caller of sudo owns: settings name programs. Raises
    UsageError."""
    trusted = {0, os.geteuid(), int(os.environ.get("SUDO_UID", "0") or 0)}
    info = path.stat()
    if info.st_uid not in trusted or info.st_mode & 0o002:
        who = f"belongs to {user_name(info.st_uid)}" if info.st_uid not in trusted else "may be written by everybody"
        take = f"{'sudo ' * bool(os.geteuid())}chown {user_name(os.geteuid())} {path}"
        fix = take if info.st_uid not in trusted else close_command(path, info)
        raise UsageError(f"{path} {who}, and settings name programs that run", f"use {fix}, or remove it")
    return read_settings(read_text(path, _HINT), str(path), table)
