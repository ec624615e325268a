"""What an image's name means, as ``--image`` and scenarios give it: a recipe, a file, or a registry's image."""

from __future__ import annotations

import re
from pathlib import Path

from kit.core.errors import UsageError
from kit.image.image_file import check_archive, find_image_file
from kit.image.oci_layout import MARKER
from kit.image.recipe import recipes

_PACKED = (".tar", ".xz", ".gz", ".zst")
#: References to a registry (distribution/reference, "Grammar"): a host may have capitals, a repository has none.
_HOST = r"[A-Za-z0-9.-]+(?::[0-9]+)?|\[[0-9A-Fa-f:.]+\](?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:(?:{_HOST})/)?{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?(?:@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{{32,}})?"
)


def check_image_name(name: str) -> None:
    """Check what can be known of an image without reading it whole or asking a registry. Raises UsageError."""
    if name in recipes():
        return
    if image_file := find_image_file(name):
        if image_file[0].is_file():
            check_archive(image_file[0], f"use a root filesystem's tarball, an archive of docker save, or {_recipes()}")
        return
    path = Path(name)
    if path.is_dir() and (name.startswith((".", "/")) or not _is_reference(name)):
        raise UsageError(f"{name} is a directory without {MARKER}", "use --rootfs for a root filesystem")
    if name.startswith((".", "/")) or name.partition(":")[0].endswith(_PACKED):
        raise UsageError(f"no image file {name}", f"use a file that exists, or {_recipes()}")
    if not _is_reference(name):
        tagged = f"{name if re.fullmatch(_PART, name) else 'debian'}:latest"
        fix = f"use a registry's image with its tag, as {tagged}, a file that exists, or {_recipes()}"
        raise UsageError(f"unknown image '{name}'", fix)


def _is_reference(name: str) -> bool:
    """Return whether a registry could have the image. One word alone is a recipe or a typo, no image of Docker Hub."""
    return ("/" in name or ":" in name) and bool(_REFERENCE.fullmatch(name))


def _recipes() -> str:
    return f"a recipe: {', '.join(recipes())}"
