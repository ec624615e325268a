"""Archives are unpacked below a directory: the one place that does it."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Sequence
from pathlib import Path

from kit.core.errors import RunError
from kit.host.beneath.cursor import open_directory
from kit.host.command import run
from kit.host.interrupt import interruptible

_OTHER_IMAGE = "use an image, or sources, without it"


def unpack(archive: Path, directory: Path, *, what: str, options: Sequence[str] = ()) -> None:
    """Unpack below a directory, whose path is trusted but for its last name. ``options``: further ones of tar, names
    last. Raises RunError, also where the directory is a symlink, or one in it would lead a member elsewhere."""
    try:
        top = open_directory(directory)
    except OSError as error:
        reason = "it is a symlink" if directory.is_symlink() else error.strerror
        raise RunError(f"{what}: {directory} can't be filled: {reason}", _OTHER_IMAGE) from None
    try:
        detour = _detour(archive, top)
        if detour:
            raise RunError(f"{what}: {directory}/{detour} is a symlink, and there is more below it", _OTHER_IMAGE)
        words: list[str | Path] = ["tar", "--force-local", "-xpf", archive, "-C", f"/proc/self/fd/{top}", *options]
        with interruptible():
            run(words, what=what, pass_fds=(top,))
    finally:
        os.close(top)


def _detour(archive: Path, top: int) -> str:
    """The first symlink that is there already and that a member's name goes through, or ''. Those of the archive itself
    tar makes last, where they lead upwards or are absolute."""
    with os.scandir(top) as entries:
        if not any(True for _ in entries):
            return ""
    plain = {""}
    with tarfile.open(archive) as tar:
        for member in tar:
            for name in (member.name, member.linkname if member.islnk() else ""):
                above = [part for part in name.split("/") if part not in ("", ".")][:-1]
                for depth in range(len(above)):
                    path = "/".join(above[: depth + 1])
                    if path not in plain and _is_symlink(path, top):
                        return path
                    plain.add(path)
            tar.members = []  # type: ignore[attr-defined]  # or it keeps them all
    return ""


def _is_symlink(path: str, top: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(path, dir_fd=top, follow_symlinks=False).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
