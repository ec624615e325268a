"""Where the kit puts its own things in an image's root filesystem, and that an image lets it."""

from __future__ import annotations

import tarfile
from pathlib import Path

from kit.core.errors import UsageError

#: Where an arm with a root filesystem of its own sees the build tree, the inputs, and the probe with its socket.
TREE = "/build"
INPUTS = "/kit-inputs"
CONTROL = "/kit-control"
#: Things are mounted over these, or put into them: they must be where they seem to be.
DIRECTORIES = (TREE, INPUTS, CONTROL, "/dev", "/proc", "/sys", "/etc")


def check_layout(rootfs: Path, name: str) -> None:
    """Raises UsageError where one of the directories is something else in the tarball, which may lead anywhere."""
    with tarfile.open(rootfs) as tar:
        for member in tar:
            path = "/" + member.name.removeprefix("./").rstrip("/")
            if path in DIRECTORIES and not member.isdir():
                raise misplaced(path, name, member.issym())
            tar.members = []  # type: ignore[attr-defined]  # or it keeps them all


def misplaced(directory: str, image: str, symlink: bool) -> UsageError:
    what = "a symlink" if symlink else "no directory"
    return UsageError(f"{directory} of image {image} is {what}", f"use an image with a directory {directory}, or none")
