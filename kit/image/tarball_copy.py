"""Copies the tarball of a root filesystem for an ordinary user, who can't unpack it: that would need device nodes, and
files of other owners."""

from __future__ import annotations

from pathlib import Path

from kit.core.errors import UsageError
from kit.image.decompress import Allowance, decompress
from kit.image.flatten import flatten
from kit.image.manifest import UnusableError
from kit.image.tar_reader import DAMAGED


def copy_tarball(path: Path, rootfs: Path) -> None:
    """Write the entries of a tarball with any compression that ``decompress`` knows, one of each name. Raises
    UsageError."""
    whole = rootfs.with_name("whole.tar")
    try:
        decompress(path, whole, Allowance.of(path.stat().st_size))
        flatten([whole], rootfs)
    except UnusableError as error:
        raise UsageError(f"{path}: {error.reason}", error.fix) from None
    except DAMAGED as error:
        reason = str(error) or type(error).__name__
        raise UsageError(
            f"{path}: damaged or unsupported: {reason}", "pack the root filesystem again, with tar"
        ) from None
    finally:
        whole.unlink(missing_ok=True)
