"""The files of an image: members of an archive, or of a directory in OCI layout."""

from __future__ import annotations

import hashlib
import os
import posixpath
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from kit.core.regular import open_regular
from kit.host.tarball import members, read_tarball
from kit.image.decompress import Allowance, decompress, is_compressed
from kit.image.manifest import LONGEST_JSON, Layer, UnusableError, hexadecimal

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
