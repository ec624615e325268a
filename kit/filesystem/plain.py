"""Backing filesystems without a block device of their own: a tmpfs, or a directory that the user gave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.command import run
from kit.errors import UsageError
from kit.filesystem.backing import Backing, BackingOptions, block_number, mount_of
from kit.filesystem.block import unmount
from kit.journal import Journal


@contextmanager
def tmpfs_backing(name: str, options: BackingOptions, where: Path, journal: Journal) -> Iterator[Backing]:
    where.mkdir(parents=True, exist_ok=True)
    wanted = f"size={options.size}" + "".join(f",{text}" for key, text in options.mount if key == name)
    run(["mount", "-t", "tmpfs", "-o", wanted, "kit", where], what="mount tmpfs")
    try:
        mount = mount_of(where)
        yield Backing(name, where, "tmpfs", mount.type, mount.options, None)
    finally:
        unmount(where)


@contextmanager
def directory_backing(name: str, options: BackingOptions, where: Path, journal: Journal) -> Iterator[Backing]:
    """A new directory inside ``options.directory``, removed afterwards; the user's other files are not touched."""
    parent = options.directory or options.images
    parent.mkdir(parents=True, exist_ok=True)
    if not parent.is_dir():
        raise UsageError(f"{parent} is not a directory", "name one with --dir")
    path = parent / f"kit-{where.parent.parent.name}"
    with journal.holding("directory", path):
        path.mkdir()
        mount = mount_of(path)
        yield Backing(name, path, f"directory of {mount.source}", mount.type, mount.options, block_number(mount))
