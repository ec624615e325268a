"""The kit's own paths in an image's root filesystem, and the check that an image permits them."""

from __future__ import annotations

from pathlib import Path

from kit.core.errors import UsageError
from kit.host.tarball import members, plain_name, read_tarball

#: Paths of the build tree, the inputs, and the probe with its socket, in an arm with its own root filesystem.
TREE = "/build"
INPUTS = "/kit-inputs"
CONTROL = "/kit-control"
#: Paths over which the kit mounts, or into which it writes: they must not lead to another path.
DIRECTORIES = (TREE, INPUTS, CONTROL, "/dev", "/proc", "/sys", "/etc")


def check_layout(rootfs: Path, name: str) -> None:
    """Raises UsageError if one of the directories is not a directory in the tarball: it could lead anywhere."""
    with read_tarball(rootfs) as tar:
        for member in members(tar):
            path = f"/{plain_name(member.name)}"
            if path in DIRECTORIES and not member.isdir():
                raise misplaced(path, name, member.issym())


def misplaced(directory: str, image: str, symlink: bool) -> UsageError:
    what = "a symlink" if symlink else "no directory"
    return UsageError(f"{directory} of image {image} is {what}", f"use an image with a directory {directory}, or none")
