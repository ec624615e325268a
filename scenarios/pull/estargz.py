"""Write a layer in the format eStargz: a gzip file whose members can be read one by one, with a table of contents
(containerd/stargz-snapshotter, docs/estargz.md). Readers of gzip unpack it as any other layer."""

import hashlib
import json
import struct
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

TOC = "stargz.index.json"
#: The annotation of a layer that names the digest of its table of contents.
ANNOTATION = "containerd.io/snapshot/stargz/toc.digest"
#: Bytes of a file in one member, as containerd's converter chooses.
CHUNK = 4 << 20
_BLOCK = 512
_TYPES = {tarfile.DIRTYPE: "dir", tarfile.REGTYPE: "reg"}


@dataclass(frozen=True)
class Written:
    """``unpacked``, ``size``: of the tar file that gzip unpacks; it contains the table of contents, whose digest is
    ``toc``. ``entries``: of that table."""

    unpacked: str
    size: int
    toc: str
    entries: list[dict[str, Any]]


class _Writer:
    """Writes members one after the other. The same bytes give the same file."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._unpacked = hashlib.sha256()
        self._member = bytearray()
        self.size = 0

    @property
    def digest(self) -> str:
        return f"sha256:{self._unpacked.hexdigest()}"

    def add(self, data: bytes) -> None:
        self._member += data

    def begin(self) -> int:
        """End the member, and return the offset of the next one."""
        if self._member:
            packer = zlib.compressobj(6, wbits=31)
            self._target.write(packer.compress(self._member) + packer.flush())
            self._unpacked.update(self._member)
            self.size += len(self._member)
            self._member.clear()
        return self._target.tell()

    def footer(self, toc: int) -> None:
        """Write an empty member whose header holds the offset of the table of contents."""
        held = f"{toc:016x}STARGZ".encode()
        header = struct.pack("<2sBBIBB", b"\x1f\x8b", 8, 4, 0, 0, 255)
        extra = struct.pack("<H2sH", len(held) + 4, b"SG", len(held)) + held
        self.begin()
        self._target.write(header + extra + b"\x01\x00\x00\xff\xff" + bytes(8))


def write(tar: Path, packed: Path) -> Written:
    """Write ``tar``, of directories and regular files, as ``packed``."""
    with tar.open("rb") as source, packed.open("wb") as target:
        writer = _Writer(target)
        with tarfile.open(tar) as archive:
            entries = [entry for member in archive for entry in _write(member, source, writer)]
        toc = json.dumps({"version": 1, "entries": entries}).encode()
        info = tarfile.TarInfo(TOC)
        info.size = len(toc)
        offset = writer.begin()
        writer.add(info.tobuf(tarfile.USTAR_FORMAT) + toc + _padding(len(toc)) + bytes(2 * _BLOCK))
        writer.footer(offset)
    return Written(writer.digest, writer.size, _digest(toc), entries)


def _write(member: tarfile.TarInfo, source: BinaryIO, writer: _Writer) -> Iterator[dict[str, Any]]:
    """Write a file, and yield its entries in the table of contents: one for each chunk. A header is at the end of the
    member before."""
    source.seek(member.offset)
    writer.add(source.read(member.offset_data - member.offset))
    content = source.read(member.size)
    entry: dict[str, Any] = {
        "name": member.name + ("/" if member.isdir() else ""),
        "type": _TYPES[member.type],
        "modtime": "1970-01-01T00:00:00Z",
        "mode": member.mode,
    }
    if member.isreg():
        entry |= {"size": member.size, "digest": _digest(content)}
    if not content:
        yield entry
    for start in range(0, len(content), CHUNK):
        chunk = content[start : start + CHUNK]
        offset = writer.begin()
        writer.add(chunk)
        yield {**entry, "offset": offset, "chunkOffset": start, "chunkSize": len(chunk), "chunkDigest": _digest(chunk)}
        entry = {"name": member.name, "type": "chunk"}
    writer.add(_padding(len(content)))


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
