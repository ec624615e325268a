"""scenarios/pull: the image that a registry serves, and what a client says of an engine's answers."""

import gzip
import hashlib
import io
import json
import shutil
import stat
import struct
import subprocess
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kit.core.errors import UsageError
from kit.host.machine import read_host
from kit.model.session import Request
from kit.session.plan.planning import find_scenario, prepare
from tests.scenario_scripts import load_script


@pytest.fixture
def image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    for name in ("chunked", "estargz", "nydus"):
        load_script(f"pull/{name}", monkeypatch)
    module = load_script("pull/image", monkeypatch)
    monkeypatch.setattr(module, "BUSYBOX", tmp_path / "busybox")
    (tmp_path / "busybox").write_bytes(b"static")
    return module


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    load_script("lifecycle/engine", monkeypatch)
    return load_script("pull/clients", monkeypatch)


def _blob(root: Path, digest: str) -> bytes:
    data = (root / "docker/registry/v2/blobs/sha256" / digest[7:9] / digest[7:] / "data").read_bytes()
    assert digest == "sha256:" + hashlib.sha256(data).hexdigest()
    return data


def _manifest(root: Path) -> dict[str, Any]:
    link = root / "docker/registry/v2/repositories/kit-pull/_manifests/tags/latest/current/link"
    found: dict[str, Any] = json.loads(_blob(root, link.read_text()))
    return found


def _unpacked(data: bytes, media: str) -> bytes:
    if media.endswith("gzip"):
        return gzip.decompress(data)
    if media.endswith("zstd"):
        return subprocess.run(["zstd", "-dq"], input=data, capture_output=True, check=True).stdout
    return data


def _layers(root: Path) -> Iterator[bytes]:
    manifest = _manifest(root)
    expected = json.loads(_blob(root, manifest["config"]["digest"]))["rootfs"]["diff_ids"]
    assert len(expected) == len(manifest["layers"])
    for layer, difference in zip(manifest["layers"], expected, strict=True):
        packed = _blob(root, layer["digest"])
        assert layer["size"] == len(packed)
        tar = _unpacked(packed, layer["mediaType"])
        assert difference == "sha256:" + hashlib.sha256(tar).hexdigest()
        yield tar


def _files(root: Path) -> dict[str, bytes]:
    found = {}
    for data in _layers(root):
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for entry in tar:
                file = tar.extractfile(entry)
                assert entry.name not in found or entry.name == "stargz.index.json"
                if file:
                    found[entry.name] = file.read()
    return found


@pytest.mark.parametrize("compression", ["gzip", "zstd", "none", "estargz", "nydus", "zstd:chunked"])
def test_every_compression_holds_the_same_files(image: ModuleType, tmp_path: Path, compression: str) -> None:
    for tool in {"zstd": ("zstd",), "zstd:chunked": ("zstd", "skopeo")}.get(compression, ()):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}: apt-get install {tool}")
    image.make(tmp_path / "r", 3, compression, "small", 1)
    files = _files(tmp_path / "r")
    data = {name: content for name, content in files.items() if name.startswith("data/")}
    assert (len(data), {len(content) for content in data.values()}) == (128, {8 << 10})
    assert files["bin/busybox"] == b"static"
    first = files["start"].decode().split()
    assert len(first) == 8 and {name.lstrip("/") for name in first} <= data.keys()  # 6.4 % of 128
    sizes = json.loads((tmp_path / "r/sizes.json").read_text())
    assert sizes["unpacked"] == sum(map(len, _layers(tmp_path / "r")))
    packed = sum(layer["size"] for layer in _manifest(tmp_path / "r")["layers"])
    assert sizes["packed"] == packed
    assert packed == sizes["unpacked"] if compression == "none" else packed < sizes["unpacked"] / 1.5
    assert not (tmp_path / "r/work").exists()


@pytest.mark.parametrize(
    ("files", "chunks"), [("small", {"reg": 66, "dir": 7}), ("large", {"reg": 3, "dir": 7, "chunk": 1})]
)
def test_an_estargz_layer_can_be_read_file_by_file(
    image: ModuleType, tmp_path: Path, files: str, chunks: dict[str, int]
) -> None:
    """As a lazy snapshotter does: from the footer to the table of contents, from there to a file."""
    image.make(tmp_path / "r", 2, "estargz", files, 1)
    layer = _manifest(tmp_path / "r")["layers"][0]
    packed = _blob(tmp_path / "r", layer["digest"])
    assert packed[-51:][16:38].endswith(b"STARGZ") and gzip.decompress(packed[-51:]) == b""
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed[int(packed[-51:][16:32], 16) :]))) as tar:
        toc = tar.extractfile("stargz.index.json")
        assert toc
        content = toc.read()
    assert layer["annotations"] == {
        "containerd.io/snapshot/stargz/toc.digest": "sha256:" + hashlib.sha256(content).hexdigest()
    }
    entries = json.loads(content)["entries"]
    assert Counter(entry["type"] for entry in entries) == chunks
    (whole, *_) = _layers(tmp_path / "r")
    with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
        for entry in entries:
            if entry["type"] == "dir":
                continue
            with gzip.open(io.BytesIO(packed[entry["offset"] :])) as member:
                chunk = member.read(entry["chunkSize"])
            assert entry["chunkDigest"] == "sha256:" + hashlib.sha256(chunk).hexdigest()
            file = tar.extractfile(entry["name"])
            assert file
            file.seek(entry["chunkOffset"])
            assert file.read(entry["chunkSize"]) == chunk


class _Index:
    """Reads an index as nydusd does: from the superblock to the root, and by name through directories."""

    def __init__(self, data: bytes) -> None:
        magic, version, _, self.chunk, _, self.count, inodes, _, blobs, entries, _, size, _, _ = struct.unpack_from(
            "<4I5Q4IQ", data
        )
        assert (magic, version) == (0x52414653, 0x500)
        self._data = data
        self._inodes = [offset << 3 for offset in struct.unpack_from(f"<{entries}I", data, inodes)]
        held = data[blobs : blobs + size]
        self.blobs = [held[start + 8 : start + 72].decode() for start in range(0, size - 71, 73)]

    def children(self, number: int) -> dict[str, int]:
        """Return the children of a directory, by name in the order in which they are looked for."""
        first, count = struct.unpack_from("<2I", self._data, self._inodes[number - 1] + 92)
        return {self._name(child): child for child in range(first, first + count)}

    def _name(self, number: int) -> str:
        start = self._inodes[number - 1]
        (length,) = struct.unpack_from("<H", self._data, start + 100)
        return self._data[start + 128 : start + 128 + length].decode()

    def files(self, number: int = 1, path: str = "") -> Iterator[tuple[str, int, list[tuple[int, ...]]]]:
        """Yield path, size and chunks of each regular file below a directory."""
        children = self.children(number)
        assert list(children) == sorted(children)
        for name, child in children.items():
            start = self._inodes[child - 1]
            (mode,), (size,) = (
                struct.unpack_from("<I", self._data, start + 60),
                struct.unpack_from("<Q", self._data, start + 64),
            )
            if stat.S_ISDIR(mode):
                yield from self.files(child, f"{path}{name}/")
                continue
            (count,) = struct.unpack_from("<I", self._data, start + 96)
            chunks = start + 128 + (len(name) + 7) // 8 * 8
            yield (
                path + name,
                size,
                [struct.unpack_from("<4I3Q", self._data, chunks + 80 * place + 32) for place in range(count)],
            )


@pytest.mark.parametrize("files", ["small", "large"])
def test_an_index_for_nydus_says_where_each_file_is(image: ModuleType, tmp_path: Path, files: str) -> None:
    image.make(tmp_path / "r", 3, "nydus", files, 1)
    *layers, last = _manifest(tmp_path / "r")["layers"]
    assert [layer["annotations"].get("containerd.io/snapshot/nydus-blob") for layer in layers] == ["true"] * 3
    assert last["annotations"] == {"containerd.io/snapshot/nydus-bootstrap": "true"}
    held = _files(tmp_path / "r")
    index = _Index(held.pop("image/image.boot"))
    del held["stargz.index.json"]
    assert index.blobs == [layer["digest"][7:] for layer in layers]
    blobs = [_blob(tmp_path / "r", layer["digest"]) for layer in layers]
    found, seen = {}, Counter[int]()
    for path, size, chunks in index.files():
        content = b""
        for blob, _, packed, unpacked, offset, _, start in chunks:
            assert start == len(content) and start % index.chunk == 0
            member = zlib.decompressobj(wbits=31).decompress(blobs[blob][offset : offset + packed], unpacked)
            content += member
            seen[blob] += 1
        assert size == len(content)
        found[path] = content
    assert found == held
    assert set(seen) == {0, 1, 2}


def test_the_same_arguments_give_the_same_bytes(image: ModuleType, tmp_path: Path) -> None:
    for name in ("one", "two"):
        image.make(tmp_path / name, 2, "gzip", "small", 1)
    assert _manifest(tmp_path / "one") == _manifest(tmp_path / "two")


def test_every_layer_has_a_file_however_small_the_image(image: ModuleType, tmp_path: Path) -> None:
    image.make(tmp_path / "r", 50, "none", "small", 0)
    assert len(list(_layers(tmp_path / "r"))) == 50
    assert sum(name.startswith("data/") for name in _files(tmp_path / "r")) == 50


def test_files_are_shared_out_once_each(image: ModuleType) -> None:
    shares = image.share_out(16, 3)
    assert [number for share in shares for number in share] == list(range(16))
    assert {len(share) for share in shares} == {5, 6}
    assert (image.read_first(1), image.read_first(32)) == ([0], [0, 16])


def test_each_compression_of_the_scenario_has_a_media_type(image: ModuleType) -> None:
    choices = {param.name: param.choices for param in find_scenario("pull").params}
    assert set(choices["compression"]) == image.MEDIA.keys()
    assert set(choices["files"]) == image.FILE_BYTES.keys()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"errorDetail": {}, "error": "no such layer"}', "no such layer"),  # Docker, Podman: the last line of many
        ('{"cause": "tls", "message": "no TLS", "response": 500}', "no TLS"),  # Podman: instead of progress
    ],
)
def test_a_failed_pull_ends_with_its_reason(clients: ModuleType, line: str, reason: str) -> None:
    clients.check_progress(iter(['{"status": "Pulling"}', "", "no JSON"]))
    with pytest.raises(SystemExit, match=f"pull: {reason}"):
        clients.check_progress(iter(['{"status": "Pulling"}', line]))


def test_only_the_expected_output_means_ready(clients: ModuleType) -> None:
    clients.check_output("\x01\x00\x00\x00\x00\x00\x00\x06ready\n")
    with pytest.raises(SystemExit, match="first output is 'sh: no cat"):
        clients.check_output("sh: no cat\n")


def test_an_interface_is_the_name_of_its_socket(clients: ModuleType) -> None:
    assert isinstance(clients.client("", "127.0.0.1:1"), clients.PlainClient)
    assert isinstance(clients.client("/kit/ctr", "127.0.0.1:1"), clients.CtrClient)
    assert set(find_scenario("pull").engine) == {"docker", "ctr"}


def test_a_load_has_no_registry() -> None:
    with pytest.raises(UsageError, match="--load pull:short needs a registry"):
        prepare(Request("smoke", arms=("bare",), load="pull:short"), read_host())
