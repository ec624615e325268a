"""Archives as ``docker save`` writes them (Docker Image Specification 1.2; since Docker 25 with an OCI layout beside).
They are read without a daemon, and written for daemons: the user's Docker stays untouched."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import msgspec

from kit.core.codec import decode_json
from kit.host.tarball import write_tarball
from kit.image.image_files import ImageFiles, read_json
from kit.image.manifest import Manifest, check_digest, make_manifest, no_such_image, several_images

#: The file by which an archive is known.
MARKER = "manifest.json"
#: Files named after their digest: HEX.json, blobs/sha256/HEX.
_BY_DIGEST = re.compile(r"(?:blobs/sha256/)?([0-9a-f]{64})(?:\.json)?")


class _Entry(msgspec.Struct):
    config: str = msgspec.field(name="Config")
    layers: tuple[str, ...] = msgspec.field(name="Layers")
    tags: tuple[str, ...] | None = msgspec.field(name="RepoTags", default=None)


def read_docker_archive(files: ImageFiles, name: str) -> Manifest:
    """Return the image of that tag, or with '' the only one. Raises UnusableError, UnreadableError."""
    entry = _named(decode_json(tuple[_Entry, ...], read_json(files, MARKER)), name)
    config = read_json(files, entry.config)
    digest_match = _BY_DIGEST.fullmatch(entry.config)
    if digest_match:
        check_digest(config, f"sha256:{digest_match[1]}", f"{entry.config[:32]}…")
    return make_manifest(config, [(layer, "", None) for layer in entry.layers])


def _named(entries: Sequence[_Entry], name: str) -> _Entry:
    chosen = [entry for entry in entries if not name or name in (entry.tags or ())]
    inside = [f"'{(entry.tags or (entry.config,))[0][:90]}'" for entry in entries]
    if not chosen:
        raise no_such_image(name, inside)
    if len({entry.config for entry in chosen}) > 1:
        raise several_images(inside)
    return chosen[0]


def write_docker_archive(
    archive: IO[bytes], config: bytes, layers: Sequence[tuple[str, Path]], names: Sequence[str] = ()
) -> None:
    """Write an image; the same one always makes the same file. ``layers``: digest and uncompressed tarball of each,
    lowest first. ``names``: with tags; the kit's own daemons get none, which could collide with another's."""
    members = [f"{digest.removeprefix('sha256:')}/layer.tar" for digest, _ in layers]
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": list(names) or None, "Layers": members}]).encode()
    with write_tarball(archive) as tar:
        for member, (_, layer) in dict(zip(members, layers, strict=True)).items():  # one may be listed twice
            with layer.open("rb") as file:
                _add(tar, member, file, layer.stat().st_size)
        for member, content in ((name, config), (MARKER, manifest)):
            _add(tar, member, io.BytesIO(content), len(content))


def _add(tar: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = size
    tar.addfile(entry, content)
