"""Images with layers that a user has as a file or a directory: an archive of ``docker save``, or an OCI layout; and the
check of a name that ``--image`` and scenarios give: a recipe, such a file, or a registry's image."""

from __future__ import annotations

import hashlib
import os
import re
from io import BufferedReader
from pathlib import Path
from typing import IO, cast

from kit.arms.image.decompress import Allowance, is_compressed, plain
from kit.arms.image.flatten import flatten
from kit.arms.image.image import Image, ImageCache
from kit.arms.image.image_files import (
    DOCKER_MARKER,
    OCI_MARKER,
    ImageFiles,
    files_size,
    image_files,
    read_docker_archive,
    read_oci_layout,
    unpack_layers,
    write_docker_archive,
)
from kit.arms.image.manifest import WRITE_AGAIN, Manifest, OtherMachineError, UnusableError
from kit.arms.image.recipe import recipes
from kit.core.codec import UnreadableError
from kit.core.errors import UsageError
from kit.core.regular import open_regular
from kit.host.safe_fs import identity, remove
from kit.host.tarball import DAMAGED, members, read_tarball

#: Directories of a root filesystem (Filesystem Hierarchy Standard): an archive that begins with one is no image.
_ROOT = frozenset(
    {
        "bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc", "root", "run", "sbin",
        "srv", "sys", "tmp", "usr", "var",
    }
)  # fmt: skip
#: Entries that are looked at for the marker of an image.
_LOOKED_AT = 50_000


def find_image_file(name: str) -> tuple[Path, str] | None:
    """Return the file or directory of ``PATH`` or ``PATH:NAME``, and the NAME; None if neither exists. NAME is that of
    an image, if the file has several."""
    ends = [len(name), *(at for at, letter in enumerate(name) if letter == ":")]
    for end in ends:
        path = Path(name[:end])
        # debian:12 is an image of a registry, also beside a file debian.
        if end < len(name) and not ("/" in name[:end] or ".tar" in path.name):
            continue
        if path.is_file() or (path / OCI_MARKER).is_file():
            return path, name[end + 1 :]
    return None


def check_archive(path: Path, fix: str) -> None:
    """Check that a file may be an archive: it begins like a compressed file or like a tarball. Nothing is decompressed.
    Raises UsageError."""
    try:
        if not is_compressed(path):
            with open_regular(path) as file, read_tarball(file) as tar:
                next(members(tar), None)
    except DAMAGED:
        raise UsageError(f"{path} is not an archive", fix) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", fix) from None


def has_layers(path: Path) -> bool:
    """Return True for an image with layers, False for the tarball of a root filesystem. Raises UsageError if
    decompressing it takes too much memory."""
    if path.is_dir():
        return True
    marked = False
    try:
        with plain(path) as stream:
            # Nothing comes from a program that refuses the file; it says why at the end of the block.
            marked = bool(cast(BufferedReader, stream).peek(1)) and _has_marker(stream)
    except (*DAMAGED, UnusableError, OSError):
        pass  # also of a program whose output is not read to its end
    return marked


def _has_marker(stream: IO[bytes]) -> bool:
    with read_tarball(stream) as tar:
        for member in members(tar, _LOOKED_AT):
            name = os.path.normpath(member.name)
            if name in (DOCKER_MARKER, OCI_MARKER):
                return True
            if name.partition("/")[0] in _ROOT:
                return False
    return False


def from_image_file(path: Path, name: str, cache: ImageCache) -> Image:
    """Return an image with layers from a file or a directory. ``name``: '' for the only one. Raises UsageError."""
    what = path / "index.json" if path.is_dir() else path
    if not what.is_file():
        raise UsageError(f"{path}: index.json is missing", WRITE_AGAIN)
    key_text = f"{what.resolve()} {identity(what)} {name}"
    key = hashlib.sha256(key_text.encode()).hexdigest()[:12]
    label = f"{path.name}:{name}" if name else path.name
    origin = f"{path}:{name}" if name else str(path)
    return cache.make(
        f"saved-{key}", label, origin, lambda rootfs, archive: read_image_file(path, rootfs, archive, name)
    )


def read_image_file(path: Path, rootfs: Path, archive: Path, name: str = "") -> dict[str, str]:
    """Write an image's root filesystem, and the image itself as ``docker save`` does, without its names. Returns its
    environment. Raises UsageError."""
    scratch = rootfs.with_name("parts")
    scratch.mkdir()
    try:
        allowance = Allowance.of(files_size(path))
        with image_files(path, scratch, allowance) as files:
            manifest = _manifest(files, name)
            layers = unpack_layers(files, manifest.layers, scratch, allowance)
        flatten(layers, rootfs)
        digests = [layer.diff_id for layer in manifest.layers]
        with archive.open("wb") as file:
            write_docker_archive(file, manifest.config, list(zip(digests, layers, strict=True)))
    except UnusableError as error:
        raise UsageError(f"{path}: {error.reason}", error.fix) from None
    except UnreadableError as error:
        raise UsageError(f"{path}: damaged or unsupported: {error.message}", WRITE_AGAIN) from None
    except DAMAGED as error:
        raise UsageError(f"{path}: damaged or unsupported: {str(error) or type(error).__name__}", WRITE_AGAIN) from None
    finally:
        remove(scratch)
    return dict(manifest.env)


def _manifest(files: ImageFiles, name: str) -> Manifest:
    """Return the image by Docker's manifest if there is one: Docker itself reads it, and the index of Docker 25.0.0
    has layers in a wrong order. It knows one platform alone, so the index beside it is next."""
    if not files.has(DOCKER_MARKER):
        return read_oci_layout(files, name)
    try:
        return read_docker_archive(files, name)
    except OtherMachineError:
        if not files.has(OCI_MARKER):
            raise
        return read_oci_layout(files, name)


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
        raise UsageError(f"{name} is a directory without {OCI_MARKER}", "use --rootfs for a root filesystem")
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
