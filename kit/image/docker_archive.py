"""Archives of ``docker save`` (Docker Image Specification v1.2), read without a daemon: the user's Docker stays
untouched. Layers are combined as the specification says, whiteouts included."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import struct
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec

from kit.core.codec import UnreadableError, decode_json
from kit.core.errors import UsageError

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
#: Headers that tarfile writes again, or that describe a sparse file which is written whole.
_OWN_HEADERS = ("path", "linkpath", "size", "uid", "gid", "uname", "gname")
_SPARSE = "GNU.sparse."
_LONGEST_JSON = 16 << 20
#: Maximum bytes of holes: an archive of a kilobyte may contain more than any disk holds.
_MOST_HOLES = 1 << 30
#: Maximum bytes of memory for xz: xz -9 needs 65 MiB, a file of a few bytes may ask for 4 GiB.
_MOST_MEMORY = 128 << 20
#: Exceptions of tarfile and decompressors for damaged archives.
_UNUSABLE = (
    tarfile.TarError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, EOFError, RecursionError,
    gzip.BadGzipFile, zlib.error, lzma.LZMAError, struct.error, UnreadableError,
)  # fmt: skip


def read_saved(path: Path, rootfs: Path, archive: Path) -> dict[str, str]:
    """Write the root filesystem of an archive's first image, and the image itself without its names, which could
    collide with another's. Returns its environment. Raises UsageError."""
    try:
        with open_packed(path) as saved:
            manifest = decode_json(tuple[_Manifest, ...], _text(saved, "manifest.json"))[0]
            config = decode_json(_Config, _text(saved, manifest.config))
            digests = config.rootfs.diff_ids
            layers = [
                _unpacked(saved, name, rootfs.with_name(f"layer-{i}.tar")) for i, name in enumerate(manifest.layers)
            ]
            _check(tuple(digest for _, digest in layers), digests, path)
            files = [file for file, _ in layers]
            _flatten(files, rootfs)
            _write(files, digests, saved, manifest.config, archive)
    except _UNUSABLE as error:
        said = error.message if isinstance(error, UnreadableError) else repr(error)
        raise UsageError(f"{path}: no usable image: {said}", "write it with docker save IMAGE -o FILE") from None
    for file in files:
        file.unlink()
    entries = (config.config and config.config.env) or ()
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def open_packed(path: Path) -> tarfile.TarFile:
    """Open a tarball, compressed or not. Raises UsageError if decompression takes too much memory, and tarfile's
    errors."""
    with path.open("rb") as file:
        head = file.read(1 << 16)
    try:
        lzma.LZMADecompressor(memlimit=_MOST_MEMORY).decompress(head, max_length=1)
    except lzma.LZMAError as error:
        if "limit" in str(error):
            raise UsageError(f"{path}: unpacking it takes more than 128 MiB of memory", "pack it with xz -6") from None
    return tarfile.open(path)


class _Manifest(msgspec.Struct):
    config: str = msgspec.field(name="Config")
    layers: tuple[str, ...] = msgspec.field(name="Layers")


class _RootFs(msgspec.Struct):
    diff_ids: tuple[str, ...]


class _Settings(msgspec.Struct):
    env: tuple[str, ...] | None = msgspec.field(name="Env", default=None)


class _Config(msgspec.Struct):
    rootfs: _RootFs
    config: _Settings | None = None


def _text(saved: tarfile.TarFile, name: str) -> bytes:
    file = saved.extractfile(name)
    if file is None:
        raise KeyError(name)
    return file.read(_LONGEST_JSON)


def _unpacked(saved: tarfile.TarFile, name: str, target: Path) -> tuple[Path, str]:
    """Return the tarball of a layer, and its digest."""
    digest = hashlib.sha256()
    with _layer(saved, name) as source, target.open("wb") as file:
        while data := source.read(1 << 20):
            digest.update(data)
            file.write(data)
    return target, f"sha256:{digest.hexdigest()}"


@contextmanager
def _layer(saved: tarfile.TarFile, name: str) -> Iterator[IO[bytes]]:
    file = saved.extractfile(name)
    if file is None:
        raise KeyError(name)
    with file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            yield file
            return
        with gzip.open(file) as plain:
            yield plain  # type: ignore[misc]


def _check(found: tuple[str, ...], wanted: tuple[str, ...], path: Path) -> None:
    if found != wanted:
        raise UsageError(f"{path}: a layer is not what the image says it is", "save it again: the file is damaged")


def _write(layers: list[Path], digests: Sequence[str], saved: tarfile.TarFile, config: str, archive: Path) -> None:
    members = [f"{digest.removeprefix('sha256:')}/layer.tar" for digest in digests]
    text = _text(saved, config)
    name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": None, "Layers": members}]).encode()
    scratch = archive.with_name("part")
    with tarfile.open(archive, "w") as tar:
        for member, layer in dict(zip(members, layers, strict=True)).items():  # one may be listed twice
            tar.add(layer, member)
        for member, content in ((name, text), ("manifest.json", manifest)):
            scratch.write_bytes(content)
            tar.add(scratch, member)
    scratch.unlink()


@dataclass
class _Hidden:
    """The names of lower layers that upper layers hide."""

    names: set[str] = field(default_factory=set)  # that they hold themselves, or have removed
    below: set[str] = field(default_factory=set)  # below which nothing of a lower layer is seen

    def hides(self, name: str) -> bool:
        return name in self.names or any(parent in self.below for parent in _parents(name))


def _flatten(layers: list[Path], rootfs: Path) -> None:
    """Write the visible content of all layers, lowest first, as one tarball whose names begin with ``./``."""
    hidden = _Hidden()
    kept: list[dict[str, int]] = []
    for layer in reversed(layers):
        own, above = _read(layer, hidden)
        kept.insert(0, own)
        hidden.names |= above.names
        hidden.below |= above.below
    with tarfile.open(rootfs, "w", format=tarfile.PAX_FORMAT) as target:
        written: set[str] = set()
        for layer, own in zip(layers, kept, strict=True):
            _copy(layer, own, target, written)


def _read(layer: Path, hidden: _Hidden) -> tuple[dict[str, int], _Hidden]:
    """Return the visible names of a layer, each with the number of its last entry; and what this layer hides."""
    own: dict[str, int] = {}
    above = _Hidden()
    with tarfile.open(layer, "r:") as tar:
        for number, member in enumerate(tar):
            name = _name(member.name)
            parent, _, last = name.rpartition("/")
            if last == _OPAQUE:
                above.below.add(parent)
            elif last.startswith(_WHITEOUT):
                gone = f"{parent}/{last.removeprefix(_WHITEOUT)}".lstrip("/")
                above.names.add(gone)
                above.below.add(gone)
            elif name:
                own[name] = number
                above.names.add(name)
                if not member.isdir():
                    above.below.add(name)
    return {name: number for name, number in own.items() if not hidden.hides(name)}, above


def _copy(layer: Path, own: dict[str, int], target: tarfile.TarFile, written: set[str]) -> None:
    """``written``: names that the target has so far."""
    with tarfile.open(layer, "r:") as tar:
        holes = 0
        moved: dict[str, str] = {}  # a hard link whose first name is hidden: the name that replaced it
        for number, member in enumerate(tar.getmembers()):
            name = _name(member.name)
            if own.get(name) != number:
                continue
            parts: Any = member.sparse  # (offset, size)
            if parts is not None:
                holes += member.size - sum(size for _, size in parts)
            if holes > _MOST_HOLES:
                raise ValueError(f"{name[:60]} has more than {_MOST_HOLES >> 30} GiB of holes")
            source: IO[bytes] | None = tar.extractfile(member) if member.isreg() else None
            if member.islnk():
                first = _name(member.linkname)
                first = moved.get(first, first)
                if first in written:
                    member.linkname = f"./{first}"
                else:
                    source = tar.extractfile(member)  # of what it links to, in this layer
                    if source is None:
                        raise ValueError(f"a hard link {name[:60]} to a missing file")
                    moved[first] = name
                    member.type, member.linkname, member.size = tarfile.REGTYPE, "", source.seek(0, 2)
                    source.seek(0)
            elif member.isreg():
                member.type = tarfile.REGTYPE  # a sparse one is written whole
            member.name = f"./{name}"
            member.pax_headers = {
                key: text
                for key, text in member.pax_headers.items()
                if key not in _OWN_HEADERS and not key.startswith(_SPARSE)
            }
            target.addfile(member, source)
            written.add(name)


def _name(text: str) -> str:
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError(f"a file called {text[:60]}")
    return "/".join(parts)


def _parents(name: str) -> Iterator[str]:
    """Return all directories that contain a name, the root as '' among them, and the name itself."""
    yield ""
    for index, letter in enumerate(name):
        if letter == "/":
            yield name[:index]
