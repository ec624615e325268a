"""Backing filesystems: what the storage driver, or the bare tree, lies on."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from kit.errors import MachineError, UsageError
from kit.filesystem.backing import Backing, BackingOptions
from kit.journal import Journal

Maker = Callable[[str, BackingOptions, Path, Journal], AbstractContextManager[Backing]]

#: Each filesystem and what makes it; a maker is imported on use.
FILESYSTEMS = {
    "ext4": "kit.filesystem.block:block_backing",
    "ext3": "kit.filesystem.block:block_backing",
    "ext2": "kit.filesystem.block:block_backing",
    "xfs": "kit.filesystem.block:block_backing",
    "btrfs": "kit.filesystem.block:block_backing",
    "tmpfs": "kit.filesystem.plain:tmpfs_backing",
    "dir": "kit.filesystem.plain:directory_backing",
    "zfs": "kit.filesystem.zfs:zfs_backing",
}


def make_backing(name: str, options: BackingOptions, where: Path, journal: Journal) -> AbstractContextManager[Backing]:
    """A fresh backing filesystem mounted at ``where`` for the length of a ``with`` block."""
    if name not in FILESYSTEMS:
        raise UsageError(f"unknown filesystem '{name}'", f"use one of: {', '.join(FILESYSTEMS)}")
    if name != "dir" and os.geteuid() != 0:
        raise MachineError("making and mounting a filesystem needs root", "sudo kit …, or arms on @dir")
    module, _, function = FILESYSTEMS[name].partition(":")
    maker: Maker = getattr(importlib.import_module(module), function)
    return maker(name, options, where, journal)


__all__ = ["FILESYSTEMS", "Backing", "BackingOptions", "make_backing"]
