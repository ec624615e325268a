"""Images of the cache as archives that the user's own Docker, Podman or containerd loads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.arms.image.decompress import Allowance
from kit.arms.image.image import Image
from kit.arms.image.image_files import image_files, read_docker_archive, unpack_layers, write_docker_archive
from kit.core.errors import UsageError
from kit.host.output_file import new_output
from kit.host.safe_fs import scratch

#: Names with a tag that every registry takes.
_REFERENCE = re.compile(r"[a-z0-9]+(?:[._:/-]+[a-z0-9]+)*:\w[\w.-]{0,127}")


def reference(name: str) -> str:
    """Return the name with its tag, which is ``latest`` if it has none. Raises UsageError."""
    tagged = name if ":" in name.rpartition("/")[2] else f"{name}:latest"
    if not _REFERENCE.fullmatch(tagged):
        raise UsageError(f"'{name}' is not a name that Docker takes", "name one, for example --tag mine:1")
    return tagged


def save_image(image: Image, file: Path, name: str) -> None:
    """Write an image as ``docker save`` does, under a name with its tag. Raises UsageError if the file can't be
    written."""
    try:
        with _parts(image) as (config, layers), new_output(file) as output:
            write_docker_archive(output, config, layers, (name,))
    except OSError as error:
        fix = "name a file in a directory that you may write to, with room for the image"
        raise UsageError(f"{file}: {error.strerror or error}", fix) from None


@contextmanager
def _parts(image: Image) -> Iterator[tuple[bytes, list[tuple[str, Path]]]]:
    """Yield the configuration, and digest and tarball of each layer, lowest first."""
    if not image.archive:
        yield image.config, [(f"sha256:{image.digest}", image.rootfs)]
        return
    allowance = Allowance.of(image.archive.stat().st_size)
    with scratch(image.archive.parent.parent) as workspace, image_files(image.archive, workspace, allowance) as files:
        manifest = read_docker_archive(files, "")
        layers = unpack_layers(files, manifest.layers, workspace, allowance)
        yield manifest.config, [(layer.diff_id, path) for layer, path in zip(manifest.layers, layers, strict=True)]
