"""The files of an image: members of an archive, or of a directory in OCI layout; and its manifest in either format.

Archives are as ``docker save`` writes them (Docker Image Specification 1.2; since Docker 25 with an OCI layout beside):
read without a daemon, and written for daemons, while the user's Docker stays untouched. The layout (OCI Image Format
Specification 1.1) has index, manifests and blobs, as buildx, Podman, Buildah and skopeo write them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import posixpath
import re
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

import msgspec

from kit.arms.image.decompress import Allowance, decompress, is_compressed
from kit.arms.image.manifest import (
    LONGEST_JSON,
    NAMED,
    Layer,
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
from kit.core.codec import decode_json
from kit.core.listing import listed
from kit.core.regular import open_regular
from kit.host.tarball import members, read_tarball, write_tarball

_MOST_MEMBERS = 50_000


class ImageFiles(Protocol):
    """Files by their names, with / between the parts."""

    def has(self, name: str) -> bool:
        """Return whether there is such a file."""

    def open(self, name: str) -> IO[bytes]:
        """Open a file. Raises UnusableError if it is missing."""


class _Archive:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._members = {posixpath.normpath(member.name): member for member in members(tar, _MOST_MEMBERS)}

    def has(self, name: str) -> bool:
        return name in self._members

    def open(self, name: str) -> IO[bytes]:
        """Follow symlinks within the archive: older ``docker save`` writes a layer that occurs twice as one."""
        at = posixpath.normpath(name)
        for _ in range(10):
            member = self._members.get(at)
            if member is None:
                break
            if member.isreg():
                if member.sparse is not None:
                    raise UnusableError(f"{name[:90]} is a sparse file")
                file = self._tar.extractfile(member)
                assert file
                return file
            at = posixpath.normpath(
                posixpath.join(posixpath.dirname(at) if member.issym() else "", member.linkname or "..")
            )
        raise _missing(name)


class _Directory:
    def __init__(self, path: Path) -> None:
        self._path = path.resolve()

    def has(self, name: str) -> bool:
        return self._find(name).is_file()

    def open(self, name: str) -> IO[bytes]:
        try:
            return open_regular(self._find(name), os.O_NOFOLLOW)
        except FileNotFoundError:
            raise _missing(name) from None
        except OSError as error:
            raise UnusableError(f"{name[:90]}: {error.strerror}") from None

    def _find(self, name: str) -> Path:
        """Raises UnusableError for a path that leads out of the directory."""
        path = self._path / name
        if ".." in path.parts or not path.parent.resolve().is_relative_to(self._path):
            raise UnusableError(f"{name[:90]} is not in the directory")
        return path


def _missing(name: str) -> UnusableError:
    return UnusableError(f"{name[:90]} is missing")


@contextmanager
def image_files(path: Path, scratch: Path, allowance: Allowance) -> Iterator[ImageFiles]:
    """Yield the files of an archive, compressed or not, or of a directory. Raises UnusableError, UsageError, OSError,
    and tarfile's errors."""
    if path.is_dir():
        yield _Directory(path)
        return
    if is_compressed(path):  # its tarball is read in any order
        unpacked = scratch / "outer.tar"
        decompress(path, unpacked, allowance)
        path = unpacked
    with read_tarball(path) as tar:
        yield _Archive(tar)


def files_size(path: Path) -> int:
    """Return the bytes of an archive, or of all blobs of a directory. Raises UnusableError, OSError."""
    if not path.is_dir():
        return path.stat().st_size
    blobs = "blobs/sha256"
    try:
        with os.scandir(path / blobs) as entries:
            return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(blobs) from None


def read_json(files: ImageFiles, name: str) -> bytes:
    """Return a JSON document. Raises UnusableError if it is missing or has more than 4 MiB."""
    with files.open(name) as file:
        text = file.read(LONGEST_JSON + 1)
    if len(text) > LONGEST_JSON:
        raise UnusableError(f"{name[:90]} has more than {LONGEST_JSON >> 20} MiB")
    return text


def unpack_layers(files: ImageFiles, layers: tuple[Layer, ...], scratch: Path, allowance: Allowance) -> list[Path]:
    """Return the uncompressed tarball of each layer, checked. Raises UnusableError."""
    unpacked: dict[str, tuple[Path, str]] = {}
    tarballs = []
    for number, layer in enumerate(layers, 1):
        if layer.file not in unpacked:
            target = scratch / f"layer-{number}.tar"
            unpacked[layer.file] = target, _unpacked(files, layer, target, allowance, number)
        path, digest = unpacked[layer.file]
        if digest != hexadecimal(layer.diff_id):
            raise UnusableError(f"layer {number} is not what the image's configuration says: the file is damaged")
        tarballs.append(path)
    return tarballs


def _unpacked(files: ImageFiles, layer: Layer, target: Path, allowance: Allowance, number: int) -> str:
    """Return the digest of the uncompressed tarball."""
    packed = target.with_suffix(".packed")
    hashed, size = hashlib.sha256(), 0
    with files.open(layer.file) as source, packed.open("wb") as file:
        while data := source.read(1 << 20):
            hashed.update(data)
            size += len(data)
            file.write(data)
    if layer.size not in (None, size) or (layer.digest and hashed.hexdigest() != hexadecimal(layer.digest)):
        raise UnusableError(f"layer {number} does not have the size and digest of its manifest: the file is damaged")
    if not is_compressed(packed):
        packed.rename(target)
        return hashed.hexdigest()
    digest = decompress(packed, target, allowance)
    packed.unlink()
    return digest


#: The file by which an archive is known.
DOCKER_MARKER = "manifest.json"
#: Files named after their digest: HEX.json, blobs/sha256/HEX.
_BY_DIGEST = re.compile(r"(?:blobs/sha256/)?([0-9a-f]{64})(?:\.json)?")


class _Entry(msgspec.Struct):
    config: str = msgspec.field(name="Config")
    layers: tuple[str, ...] = msgspec.field(name="Layers")
    tags: tuple[str, ...] | None = msgspec.field(name="RepoTags", default=None)


def read_docker_archive(files: ImageFiles, name: str) -> Manifest:
    """Return the image of that tag, or with '' the only one. Raises UnusableError, UnreadableError."""
    entry = _named_entry(decode_json(tuple[_Entry, ...], read_json(files, DOCKER_MARKER)), name)
    config = read_json(files, entry.config)
    digest_match = _BY_DIGEST.fullmatch(entry.config)
    if digest_match:
        check_digest(config, f"sha256:{digest_match[1]}", f"{entry.config[:32]}…")
    return make_manifest(config, [(layer, "", None) for layer in entry.layers])


def _named_entry(entries: Sequence[_Entry], name: str) -> _Entry:
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
        for member, content in ((name, config), (DOCKER_MARKER, manifest)):
            _add(tar, member, io.BytesIO(content), len(content))


def _add(tar: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = size
    tar.addfile(entry, content)


#: The file by which a layout is known.
OCI_MARKER = "oci-layout"
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
    chosen = _for_machine(files, _named_descriptors(_images(index), name))
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


def _named_descriptors(descriptors: Sequence[_Descriptor], name: str) -> list[_Descriptor]:
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
