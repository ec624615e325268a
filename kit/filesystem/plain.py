"""Backing filesystems that are a directory on something mounted, which the user gave."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.core.errors import UsageError
from kit.filesystem.backing import Backing, BackingOptions, block_number
from kit.filesystem.profile import Profile
from kit.host.journal import Journal
from kit.host.mounts import mount_of

#: Overlay's mount options and Docker's bind mounts are lists: what divides them can't be in a path.
_DIVIDERS = re.compile(r"[,:\\\n\"]")


def check_directory(path: Path) -> None:
    """Whether engines can be told to keep their files there. Raises UsageError."""
    found = _DIVIDERS.search(str(path))
    if found:
        raise UsageError(
            f"--dir {path}: no overlay and no engine can be told of a path with {found[0]!r} in it",
            f"mount --bind {shlex.quote(str(path))} /mnt, and --dir /mnt",
        )


@contextmanager
def directory_backing(
    profile: Profile, options: BackingOptions, where: Path, label: str, journal: Journal
) -> Iterator[Backing]:
    """A new directory inside ``options.directory``, removed afterwards; the user's other files are not touched."""
    parent = options.directory or options.images
    check_directory(parent)
    parent.mkdir(parents=True, exist_ok=True)
    if not parent.is_dir():
        raise UsageError(f"{parent} is not a directory", "name one with --dir")
    path = parent / f"kit-{label}"
    with journal.directory(path):
        mount = mount_of(path)
        yield Backing(
            profile.name, path, f"directory of {mount.source}", mount.type, mount.options, block_number(mount)
        )
