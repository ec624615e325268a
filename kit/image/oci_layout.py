"""Images in OCI layout (OCI Image Format Specification 1.1): index, manifests and blobs, as buildx, Podman, Buildah and
skopeo write them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from kit.core.codec import decode_json
from kit.core.listing import listed
from kit.image.image_files import ImageFiles, read_json
from kit.image.manifest import (
    LONGEST_JSON,
    NAMED,
    Manifest,
    Platform,
    UnusableError,
    check_digest,
    hexadecimal,
    make_manifest,
    no_such_image,
    other_machine,
    several_images,
)

#: The file by which a layout is known.
MARKER = "oci-layout"
_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST, CONFIG = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.config.v1+json"
TARBALL = "application/vnd.oci.image.layer.v1.tar"
_MANIFESTS = (
    MANIFEST,
    "application/vnd.docker.distribution.manifest.v2+json",
)
_CONFIGS = (CONFIG, "application/vnd.docker.container.image.v1+json")
#: Layers; those marked as not distributable are often left out, and then lie elsewhere.
_LAYER = re.compile(
    r"application/vnd\.(?:oci\.image\.layer\.(nondistributable\.)?v1\.tar|docker\.image\.rootfs\.(foreign\.)?diff\.tar)"
    r"(?:[+.](?:gzip|zstd))?"
)
#: The names of an image in a layout; the second is containerd's and Docker's, which write the tag alone to the first.
TAG, NAME = "org.opencontainers.image.ref.name", "io.containerd.image.name"
#: Docker's attestations of an image, listed beside it.
_ATTESTATION = "vnd.docker.reference.type"
#: Maximum number of indexes that other indexes list. A loop of them would need a digest of itself.
_MOST_INDEXES = 16


class _Descriptor(msgspec.Struct):
    digest: str
    size: int
    media_type: str = msgspec.field(name="mediaType")
    platform: Platform | None = None
    annotations: dict[str, str] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(filter(None, ((self.annotations or {}).get(key) for key in (TAG, NAME))))


class _Index(msgspec.Struct):
    manifests: tuple[_Descriptor, ...]


class _Manifest(msgspec.Struct):
    config: _Descriptor
    layers: tuple[_Descriptor, ...]


def read_oci_layout(files: ImageFiles, name: str) -> Manifest:
    """Return the image of that name, or with '' the only one, for this machine. Raises UnusableError,
    UnreadableError."""
    index = decode_json(_Index, read_json(files, "index.json"))
    chosen = _for_machine(files, _named(_images(index), name))
    manifest = decode_json(_Manifest, _blob(files, chosen))
    if manifest.config.media_type not in _CONFIGS:
        raise UnusableError(
            f"it is not a container image: its configuration is {manifest.config.media_type[:90]}",
            "use an image's layout",
        )
    layers = []
    for number, layer in enumerate(manifest.layers, 1):
        kind = _LAYER.fullmatch(layer.media_type)
        if not kind:
            raise UnusableError(
                f"layer {number} is {layer.media_type[:90]}, which can't be unpacked", "use an image of tarballs"
            )
        file = _file(layer)
        if any(kind.groups()) and not files.has(file):
            raise UnusableError(
                f"layer {number} may not be distributed, and is not in it", "use an image that has all its layers"
            )
        layers.append((file, layer.digest, layer.size))
    return make_manifest(_blob(files, manifest.config), layers)


def _images(index: _Index) -> tuple[_Descriptor, ...]:
    return tuple(descriptor for descriptor in index.manifests if _ATTESTATION not in (descriptor.annotations or {}))


def _named(descriptors: Sequence[_Descriptor], name: str) -> list[_Descriptor]:
    """Return the descriptors of one image: that of a name or digest, or the only one."""
    images: dict[str, list[_Descriptor]] = {}
    for descriptor in descriptors:
        # Without a name, manifests of several platforms are one image; any other is one by itself.
        label = descriptor.names[-1] if descriptor.names else "" if descriptor.platform else descriptor.digest
        images.setdefault(label, []).append(descriptor)
    inside = [f"'{label[:90]}'" if label else "one without a name" for label in images]
    if name:
        chosen = [descriptor for descriptor in descriptors if name in (*descriptor.names, descriptor.digest)]
        if chosen:
            return chosen
        raise no_such_image(name, inside)
    if len({tuple(descriptor.digest for descriptor in group) for group in images.values()}) > 1:
        raise several_images(inside)
    if not images:
        raise no_such_image(name, inside)
    return next(iter(images.values()))


def _for_machine(files: ImageFiles, descriptors: Sequence[_Descriptor]) -> _Descriptor:
    """Return the manifest that suits this machine best."""
    able, others = [], []
    for descriptor in _manifests(files, descriptors, set()):
        rank = (descriptor.platform or Platform()).rank
        if rank is None:
            others.append(descriptor.platform or Platform())
        else:
            able.append((rank, descriptor))
    if able:
        best = min(rank for rank, _ in able)
        chosen = {descriptor.digest: descriptor for rank, descriptor in able if rank == best}
        if len(chosen) > 1:
            reason = f"it has several images: {listed(list(chosen), NAMED)}"
            raise UnusableError(reason, "name one by its digest, after a colon: --image FILE:DIGEST")
        return next(iter(chosen.values()))
    if others:
        raise other_machine(others)
    raise UnusableError("its index has no image")


def _manifests(files: ImageFiles, descriptors: Sequence[_Descriptor], visited: set[str]) -> Iterator[_Descriptor]:
    """Yield the manifests of images, those of nested indexes among them. ``visited``: digests of indexes so far."""
    for descriptor in descriptors:
        if descriptor.media_type in _MANIFESTS:
            yield descriptor
        elif descriptor.media_type not in _INDEXES:
            raise UnusableError(f"it is not a container image: {descriptor.media_type[:90]}", "use an image's layout")
        elif descriptor.digest not in visited:
            visited.add(descriptor.digest)
            if len(visited) > _MOST_INDEXES:
                raise UnusableError(f"more than {_MOST_INDEXES} indexes, one in the other")
            yield from _manifests(files, _images(decode_json(_Index, _blob(files, descriptor))), visited)


def _blob(files: ImageFiles, descriptor: _Descriptor) -> bytes:
    """Return a document, checked."""
    name = _file(descriptor)
    if descriptor.size > LONGEST_JSON:
        raise UnusableError(f"{name[:32]}… has {descriptor.size} bytes, more than {LONGEST_JSON >> 20} MiB")
    text = read_json(files, name)
    if len(text) != descriptor.size:
        raise UnusableError(f"{name[:32]}… has {len(text)} bytes, and {descriptor.size} are announced")
    check_digest(text, descriptor.digest, f"{name[:32]}…")
    return text


def _file(descriptor: _Descriptor) -> str:
    return f"blobs/sha256/{hexadecimal(descriptor.digest)}"
