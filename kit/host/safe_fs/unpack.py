"""Unpacks archives below a directory; no other module does."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from kit.core.errors import RunError
from kit.host.command import run
from kit.host.interrupt import interruptible
from kit.host.safe_fs.dir_walker import open_directory
from kit.host.tarball import local_name, members, plain_name, read_tarball

_OTHER_IMAGE = "use an image, or sources, without it"


def unpack(archive: Path, directory: Path, *, what: str, options: Sequence[str] = ()) -> None:
    """Unpack an archive below a directory; all but the last name of its path is trusted. ``options``: further options
    of tar, names last. Raises RunError, also if the directory is a symlink, or a symlink in it would lead a member
    outside."""
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
    """Return the first existing symlink on the path of a member, or ''. tar creates the archive's own symlinks last if
    they are absolute or lead upwards."""
    with os.scandir(top) as entries:
        if not any(True for _ in entries):
            return ""
    plain = {""}
    with read_tarball(archive) as tar:
        for member in members(tar):
            for name in (member.name, member.linkname if member.islnk() else ""):
                above = plain_name(local_name(name)).split("/")[:-1]
                for depth in range(len(above)):
                    path = "/".join(above[: depth + 1])
                    if path not in plain and _is_symlink(path, top):
                        return path
                    plain.add(path)
    return ""


def _is_symlink(path: str, top: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(path, dir_fd=top, follow_symlinks=False).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
