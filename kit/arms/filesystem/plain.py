"""Backing filesystems that are a directory on a mounted filesystem of the user's."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.arms.filesystem.backing import Backing, BackingOptions
from kit.arms.filesystem.block import unmount
from kit.arms.filesystem.device import block_number
from kit.arms.filesystem.profile import Profile
from kit.core.errors import UsageError
from kit.host.mounts import check_runs_programs, mount_of
from kit.host.namespace import bind_directory
from kit.host.recovery.journal import Journal
from kit.host.safe_fs import open_directory, open_trusted

#: Separators in Overlay's mount options and Docker's bind mounts: a path can't contain them.
_DIVIDERS = re.compile(r"[,:\\\n\"]")
#: Name inside the new directory, which is closed to others.
_INNER = "fs"


def check_directory(path: Path) -> None:
    """Check that engines can keep their files there. Raises UsageError."""
    divider = _DIVIDERS.search(str(path))
    if divider:
        raise UsageError(
            f"--dir {path}: neither overlay nor an engine accepts a path with {divider[0]!r} in it",
            f"run mount --bind {shlex.quote(str(path))} /mnt, then use --dir /mnt",
        )


@contextmanager
def directory_backing(
    profile: Profile, options: BackingOptions, where: Path, label: str, journal: Journal
) -> Iterator[Backing]:
    """Yield a new directory inside ``options.directory``; remove it afterwards. The user's other files stay untouched.
    Raises UsageError if another user could replace it, MachineError if an ordinary user can run no program there."""
    directory = options.directory or options.images
    check_directory(directory)
    parent = trusted_directory(directory)
    if os.geteuid() != 0:
        check_runs_programs(
            parent, str(directory), "use --dir DIRECTORY on another filesystem, or run as root: sudo kit …"
        )
    with own_directory(parent, label, where, journal) as path:
        mount = mount_of(path)
        yield Backing(
            profile.name, path, f"directory of {mount.source}", mount.type, mount.options, block_number(mount),
            origin=parent / _name(label) / _INNER,
        )  # fmt: skip


def trusted_directory(path: Path) -> Path:
    """Return the real path of a directory that no other user can replace. Raises UsageError."""
    try:
        descriptor = open_trusted(path)
    except NotADirectoryError:
        raise UsageError(f"--dir {path}: it is not a directory", "name one with --dir") from None
    except UsageError as error:
        raise UsageError(f"--dir {error.message}", error.hint) from None
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink()
    finally:
        os.close(descriptor)


@contextmanager
def own_directory(parent: Path, label: str, where: Path, journal: Journal) -> Iterator[Path]:
    """Yield a new directory inside ``parent``, closed to others; remove it afterwards. The used directory lies in it.
    The session's mount namespace shows that directory at ``where``, whatever happens to its name. Without root, mounts
    are impossible, so its own path is used. Raises RunError."""
    with journal.directory(parent / _name(label)) as path:
        top = open_directory(path)
        try:
            os.mkdir(_INNER, dir_fd=top)
            inner = open_directory(_INNER, top)
        finally:
            os.close(top)
        try:
            os.fchmod(inner, 0o755)  # past the umask: users of scenarios go there
            if os.geteuid() != 0:
                yield path / _INNER
                return
            where.mkdir(parents=True, exist_ok=True)
            bind_directory(inner, where)
        finally:
            os.close(inner)
        try:
            yield where
        finally:
            unmount(where)


def _name(label: str) -> str:
    return f"kit-{label}"
