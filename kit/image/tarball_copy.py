"""Copies the tarball of a root filesystem for an ordinary user, who can't unpack it: that would need device nodes, and
files of other owners."""

from __future__ import annotations

from pathlib import Path

from kit.image.decompress import decompressed, usable
from kit.image.flatten import flatten


def copy_tarball(path: Path, rootfs: Path) -> None:
    """Write the entries of a tarball with any compression that ``decompress`` knows, one of each name. Raises
    UsageError."""
    whole = rootfs.with_name("whole.tar")
    try:
        with usable(path):
            flatten([decompressed(path, whole)], rootfs)
    finally:
        whole.unlink(missing_ok=True)
