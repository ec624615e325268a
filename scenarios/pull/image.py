"""Make an image of a given shape, as the storage of a registry: image.py DIRECTORY LAYERS COMPRESSION FILES MIB.

The directory is what docker-registry keeps of one repository, kit-pull, with one tag, latest: blobs by their digests,
and links to them (distribution, registry/storage/paths.go). The same arguments give the same bytes."""

import gzip
import hashlib
import json
import platform
import random
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import accumulate, cycle
from pathlib import Path
from typing import Any

import chunked
import estargz
import nydus

REPOSITORY = "kit-pull"
#: It runs without any library.
BUSYBOX = Path("/bin/busybox")
FILE_BYTES = {"small": 8 << 10, "large": 8 << 20}
MEDIA = {
    "gzip": "tar+gzip", "zstd": "tar+zstd", "none": "tar", "estargz": "tar+gzip", "zstd:chunked": "tar+zstd",
    "nydus": "tar+gzip",
}  # fmt: skip
#: The share of an image that a container reads until it is ready: Slacker (FAST 2016) found 6.4 % for 57 images.
READ_AT_START = 0.064
#: A container reads these files, says so, and waits.
COMMAND = "busybox xargs busybox cat < /start >/dev/null && echo ready && exec busybox sleep 3600"
#: Text repeats after so many bytes: further away than gzip and zstd look back by default.
_TEXT = 16 << 20
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def text(size: int) -> bytes:
    """Return words of which a few are frequent: gzip packs them to less than half, as it does many images."""
    numbers = random.Random(31)
    words = [numbers.randbytes(numbers.randint(2, 9)) for _ in range(4096)]
    frequency = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    made = bytearray()
    while len(made) < size:
        made += b" ".join(numbers.choices(words, cum_weights=frequency, k=100_000))
    return bytes(made[:size])


def share_out(count: int, layers: int) -> list[list[int]]:
    """Return the numbers of the files in each layer, as many in each as in the others, or one more."""
    return [list(range(count * layer // layers, count * (layer + 1) // layers)) for layer in range(layers)]


def read_first(count: int) -> list[int]:
    """Return the files that a container reads at its start: one at least, from all over the image."""
    wanted = max(1, round(count * READ_AT_START))
    return [count * number // wanted for number in range(wanted)]


def path(number: int) -> str:
    return f"data/{number // 256:04}/{number:06}"


def pieces(size: int, whole: bytes) -> Iterator[bytes]:
    """Yield the content of one file after the other."""
    for start in cycle(range(0, max(len(whole) - size, 0) + 1, size)):
        yield whole[start : start + size]


def add(tar: tarfile.TarFile, name: str, content: bytes | None, mode: int = 0o644) -> None:
    """Add a file, or a directory if there is no content."""
    entry = tarfile.TarInfo(name)
    entry.mode = mode
    if content is None:
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(entry)
    else:
        entry.size = len(content)
        tar.addfile(entry, BytesIO(content))


def base(tar: tarfile.TarFile, count: int) -> None:
    """Add what a container needs in order to run: a static busybox, mount points, the list of what it reads first."""
    for directory in ("bin", "dev", "etc", "proc", "sys", "tmp", "data"):
        add(tar, directory, None)
    add(tar, "bin/busybox", BUSYBOX.read_bytes(), 0o755)
    add(tar, "start", "".join(f"/{path(number)}\n" for number in read_first(count)).encode())


def digest_of(file: Path) -> str:
    with file.open("rb") as opened:
        return "sha256:" + hashlib.file_digest(opened, "sha256").hexdigest()


def compress(tar: Path, compression: str) -> Path:
    """Return the compressed file, or the file itself."""
    packed = tar.with_suffix(".packed")
    if compression == "none":
        return tar
    if compression == "zstd":
        subprocess.run(["zstd", "-q", "-T1", "-o", packed, tar], check=True)
    else:
        with tar.open("rb") as source, packed.open("wb") as target, gzip.GzipFile("", "wb", 6, target, 0) as zipped:
            shutil.copyfileobj(source, zipped, 1 << 20)
    return packed


@dataclass(frozen=True)
class Layer:
    """``packed``: its file. ``unpacked``, ``size``: digest and bytes of what a client unpacks. ``entries``: of the
    table of contents in it."""

    packed: Path
    unpacked: str
    size: int
    annotations: dict[str, str] = field(default_factory=dict)
    entries: list[dict[str, Any]] = field(default_factory=list)


def pack(tar: Path, compression: str) -> Layer:
    """Return the layer that a tar file becomes."""
    if compression in ("estargz", "nydus"):
        packed = tar.with_suffix(".packed")
        written = estargz.write(tar, packed)
        marks = {estargz.ANNOTATION: written.toc, **({nydus.DATA: "true"} if compression == "nydus" else {})}
        return Layer(packed, written.unpacked, written.size, marks, written.entries)
    unpacked, size = digest_of(tar), tar.stat().st_size
    if compression == "zstd:chunked":
        packed = tar.with_suffix(".packed")
        parts = chunked.write(tar, unpacked, packed)
        return Layer(packed, parts.unpacked, parts.size, parts.annotations)
    return Layer(compress(tar, compression), unpacked, size)


class Storage:
    """Writes the directory of a registry."""

    def __init__(self, root: Path) -> None:
        self._root = root / "docker/registry/v2"
        self._repository = self._root / "repositories" / REPOSITORY

    def take(self, file: Path) -> str:
        """Move a file to the blobs, and return its digest."""
        digest = digest_of(file)
        target = self._root / "blobs/sha256" / digest[7:9] / digest[7:] / "data"
        target.parent.mkdir(parents=True, exist_ok=True)
        file.rename(target)
        self._link("_layers", digest)
        return digest

    def publish(self, manifest: Path) -> None:
        """Take the manifest as that of the tag."""
        digest = self.take(manifest)
        self._link("_manifests/revisions", digest)
        self._link("_manifests/tags/latest/index", digest)
        self._write("_manifests/tags/latest/current/link", digest)

    def _link(self, kind: str, digest: str) -> None:
        self._write(f"{kind}/sha256/{digest[7:]}/link", digest)

    def _write(self, name: str, digest: str) -> None:
        target = self._repository / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(digest)


def write_json(file: Path, document: object) -> Path:
    file.write_text(json.dumps(document))
    return file


def pack_all(work: Path, layers: int, compression: str, count: int, content: Iterator[bytes]) -> Iterator[Layer]:
    """Yield the layers. Each one's file is taken before the next is made."""
    tar_file, blobs = work / "layer.tar", []
    for number, held in enumerate(share_out(count, layers)):
        with tarfile.open(tar_file, "w", format=tarfile.USTAR_FORMAT) as tar:
            if number == 0:
                base(tar, count)
            for file in held:
                add(tar, path(file), next(content))
        layer = pack(tar_file, compression)
        blobs.append(nydus.Blob(digest_of(layer.packed), layer.packed.stat().st_size, layer.entries))
        yield layer
    if compression == "nydus":
        with tarfile.open(tar_file, "w", format=tarfile.USTAR_FORMAT) as tar:
            add(tar, nydus.FILE, nydus.index(blobs), 0o444)
        yield replace(pack(tar_file, "gzip"), annotations={nydus.INDEX: "true"})


def make(root: Path, layers: int, compression: str, files: str, mebibytes: int) -> None:
    """Make the image. Its sizes are in ``sizes.json``, beside what the registry serves."""
    size = FILE_BYTES[files]
    count = max(layers, (mebibytes << 20) // size)
    content = pieces(size, text(min(count * size, _TEXT)))
    storage, listed, differences, sizes = Storage(root), [], [], {"packed": 0, "unpacked": 0}
    root.mkdir(parents=True)
    work = root / "work"
    work.mkdir()
    for layer in pack_all(work, layers, compression, count, content):
        differences.append(layer.unpacked)
        length = layer.packed.stat().st_size
        sizes["packed"] += length
        sizes["unpacked"] += layer.size
        media = f"application/vnd.oci.image.layer.v1.{MEDIA[compression]}"
        described = {"mediaType": media, "size": length, "digest": storage.take(layer.packed)}
        listed.append({**described, "annotations": layer.annotations} if layer.annotations else described)
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Cmd": ["/bin/busybox", "sh", "-c", COMMAND], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": differences},
        "history": [{"created_by": f"layer {number}"} for number in range(len(listed))],
    }
    configured = write_json(work / "config", config)
    length = configured.stat().st_size
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "size": length,
            "digest": storage.take(configured),
        },
        "layers": listed,
    }
    storage.publish(write_json(work / "manifest", manifest))
    shutil.rmtree(work)
    write_json(root / "sizes.json", sizes)


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]))
