"""Write the index of an image in the format of Nydus, over layers in the format eStargz: its data stay where they are,
and other engines unpack them as any other layer. nydus-image does so too (nydus-rs, builder/stargz.rs). The format is
RAFS 5 (nydus-rafs, metadata/layout/v5.rs); one index holds the whole image."""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from stat import S_IFDIR, S_IFREG
from typing import Any

import estargz

#: Annotations by which the snapshotter knows a layer with data, and the one with the index.
DATA, INDEX = "containerd.io/snapshot/nydus-blob", "containerd.io/snapshot/nydus-bootstrap"
#: The index in its layer.
FILE = "image/image.boot"
_MAGIC, _VERSION, _SUPER_BYTES = 0x52414653, 0x500, 8192
#: Chunks are in gzip, digests are SHA-256, and files have owners.
_FLAGS = 0x40 | 0x08 | 0x10
_COMPRESSED = 1
_SUPER = struct.Struct("<4I5Q4IQ")
_BLOB = struct.Struct("<2I2Q40x")
_INODE = struct.Struct("<32s2Q4I3Q3I2H2IQ8x")
_CHUNK = struct.Struct("<32s4I3Q2I")


@dataclass(frozen=True)
class Blob:
    """A layer with data. ``entries``: of its table of contents."""

    digest: str
    size: int
    entries: Sequence[dict[str, Any]]


@dataclass
class _Node:
    """A file or directory. ``chunks``: where its content is."""

    name: str
    mode: int = S_IFDIR | 0o755
    size: int = 0
    chunks: list[bytes] = field(default_factory=list)
    children: dict[str, "_Node"] = field(default_factory=dict)
    number: int = 1
    parent: int = 0
    first: int = 0

    def inode(self) -> bytes:
        """Return the inode, with its name and its chunks."""
        name = self.name.encode()
        folders = sum(1 for child in self.children.values() if child.mode & S_IFDIR)
        links = 2 + folders if self.mode & S_IFDIR else 1
        held = len(self.children) or len(self.chunks)
        fixed = _INODE.pack(self.digest(), self.parent, self.number, 0, 0, 0, self.mode, self.size,
                            -(-self.size // 512), 0, links, self.first, held, len(name), 0, 0, 0, 0)  # fmt: skip
        return fixed + _aligned(name) + b"".join(self.chunks)

    def digest(self) -> bytes:
        """Return the digest of those of the children or chunks."""
        parts = [child.digest() for child in self.children.values()] or [chunk[:32] for chunk in self.chunks]
        return hashlib.sha256(b"".join(parts)).digest()


def index(blobs: Sequence[Blob]) -> bytes:
    """Return the index: the superblock, tables of inodes and of layers, the inodes."""
    root = _Node("/")
    described = [_BLOB.pack(*_add(root, number, blob)) for number, blob in enumerate(blobs)]
    names = _aligned(b"\0".join(bytes(8) + blob.digest[7:].encode() for blob in blobs))
    nodes = _number(root)
    entries = len(nodes) + len(nodes) % 2
    blob_table = _SUPER_BYTES + 4 * entries
    extended = blob_table + len(names)
    offset = extended + len(described) * _BLOB.size
    table, inodes = [], []
    for node in nodes:
        inodes.append(node.inode())
        table.append(offset >> 3)
        offset += len(inodes[-1])
    superblock = _SUPER.pack(_MAGIC, _VERSION, _SUPER_BYTES, estargz.CHUNK, _FLAGS, len(nodes), _SUPER_BYTES, 0,
                             blob_table, entries, 0, len(names), len(blobs), extended)  # fmt: skip
    return b"".join([superblock.ljust(_SUPER_BYTES, b"\0"), _aligned(struct.pack(f"<{len(table)}I", *table)), names,
                     *described, *inodes])  # fmt: skip


def _add(root: _Node, number: int, blob: Blob) -> tuple[int, int, int, int]:
    """Add the files of a layer to the tree. Returns the number of its chunks, its features, its unpacked and its
    packed bytes."""
    chunks = [entry for entry in blob.entries if "offset" in entry]
    ends = [entry["offset"] for entry in chunks[1:]] + [blob.size]
    unpacked, places = 0, {}
    for place, (entry, end) in enumerate(zip(chunks, ends, strict=True)):
        size, offset = entry["chunkSize"], entry["offset"]
        packed = min(end - offset, _largest(size))
        places[offset] = _CHUNK.pack(bytes.fromhex(entry["chunkDigest"][7:]), number, _COMPRESSED, packed, size,
                                     offset, unpacked, entry["chunkOffset"], place, 0)  # fmt: skip
        unpacked += size
    for entry in blob.entries:
        node = root
        for name in entry["name"].strip("/").split("/"):
            node = node.children.setdefault(name, _Node(name))
        if entry["type"] == "reg":
            node.mode, node.size = S_IFREG | entry["mode"], entry["size"]
        elif entry["type"] == "dir":
            node.mode = S_IFDIR | entry["mode"]
        if "offset" in entry:
            node.chunks.append(places[entry["offset"]])
    return len(chunks), 0, unpacked, blob.size


def _largest(size: int) -> int:
    """Return the most bytes that gzip packs so many to (nydus-utils, compute_compressed_gzip_size)."""
    return size + 151 + size // (16 << 10) * 5


def _number(root: _Node) -> list[_Node]:
    """Return all nodes in the order of their numbers: those of a directory follow each other, by name, and come after
    it."""
    nodes = [root]
    for node in nodes:  # grows meanwhile
        node.children = dict(sorted(node.children.items(), key=lambda item: item[0].encode()))
        node.first = len(nodes) + 1 if node.children else 0
        for child in node.children.values():
            child.parent = node.number
            nodes.append(child)
            child.number = len(nodes)
    return nodes


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)
