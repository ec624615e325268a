"""Write a layer in the format zstd:chunked: zstd frames that can be read one by one, with a table of contents
(containers/storage, docs/containers-storage-zstd-chunked.md). Readers of zstd unpack it as any other layer. skopeo
packs it, from an OCI layout (image-spec, image-layout.md) that has this layer alone."""

import hashlib
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TYPE = "application/vnd.oci.image"


@dataclass(frozen=True)
class Chunked:
    """``unpacked``, ``size``: digest and bytes of the tar file that zstd unpacks: skopeo leaves out padding."""

    unpacked: str
    size: int
    annotations: dict[str, str]


def write(tar: Path, digest: str, packed: Path) -> Chunked:
    """Write ``tar``, whose digest is given, as ``packed``."""
    given, made = packed.with_suffix(".given"), packed.with_suffix(".made")
    blobs = given / "blobs/sha256"
    blobs.mkdir(parents=True)
    size = tar.stat().st_size
    tar.rename(blobs / digest[7:])
    config = _store(blobs, {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest]}})
    layer = {"mediaType": f"{_TYPE}.layer.v1.tar", "digest": digest, "size": size}
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_TYPE}.manifest.v1+json",
        "config": {"mediaType": f"{_TYPE}.config.v1+json", **config},
        "layers": [layer],
    }
    entry = {"mediaType": f"{_TYPE}.manifest.v1+json", **_store(blobs, manifest)}
    (given / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    (given / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    words = ["skopeo", "--insecure-policy", "copy", "--quiet", "--dest-compress-format", "zstd:chunked"]
    subprocess.run([*words, f"oci:{given}", f"oci:{made}"], check=True)
    found = _load(made, json.loads((made / "index.json").read_text())["manifests"][0])["layers"][0]
    (made / "blobs/sha256" / found["digest"][7:]).rename(packed)
    for directory in (given, made):
        shutil.rmtree(directory)
    with subprocess.Popen(["zstd", "-dqc", packed], stdout=subprocess.PIPE) as process:
        assert process.stdout
        unpacked, length = hashlib.sha256(), 0
        while data := process.stdout.read(1 << 20):
            unpacked.update(data)
            length += len(data)
    return Chunked(f"sha256:{unpacked.hexdigest()}", length, found["annotations"])


def _store(blobs: Path, document: object) -> dict[str, Any]:
    """Write a document among the blobs, and return its digest and size."""
    data = json.dumps(document).encode()
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


def _load(layout: Path, entry: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((layout / "blobs/sha256" / entry["digest"][7:]).read_text())
    return found
