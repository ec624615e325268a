"""A directory in OCI layout that a build tool reads images from and writes them to."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.arms.image.decompress import Allowance
from kit.arms.image.image import Image
from kit.arms.image.image_files import (
    CONFIG,
    MANIFEST,
    NAME,
    OCI_MARKER,
    TAG,
    TARBALL,
    image_files,
    read_docker_archive,
)
from kit.arms.image.manifest import hexadecimal


@dataclass
class OciStore:
    """``path``: the directory, made by ``add``. Images are found by the full names under which they were written."""

    path: Path
    _preserved: frozenset[str] = field(default=frozenset(), init=False)

    def add(self, image: Image) -> None:
        """Write an image under its tag, with its layers if it has them, else as one layer."""
        self._blobs.mkdir(parents=True)
        config, layers = self._of_archive(image.archive) if image.archive else self._of_rootfs(image)
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self._written(config, CONFIG),
            "layers": [self._described(digest, TARBALL) for digest in layers],
        }
        described = self._written(json.dumps(manifest).encode(), MANIFEST)
        names = {NAME: image.tag, TAG: image.tag.partition(":")[2]}
        (self.path / OCI_MARKER).write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
        self._write_index([{**described, "annotations": names}])

    def _of_archive(self, archive: Path) -> tuple[bytes, list[str]]:
        """Write the layers; return the configuration, and the layers' digests."""
        with image_files(archive, self.path, Allowance.of(archive.stat().st_size)) as files:
            manifest = read_docker_archive(files, "")
            for layer in manifest.layers:
                with files.open(layer.file) as source, (self._blobs / hexadecimal(layer.diff_id)).open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        return manifest.config, [layer.diff_id for layer in manifest.layers]

    def _of_rootfs(self, image: Image) -> tuple[bytes, list[str]]:
        shutil.copyfile(image.rootfs, self._blobs / image.digest)
        return image.config, [f"sha256:{image.digest}"]

    def digest(self, name: str) -> str:
        """Return the digest of an image's manifest. Raises KeyError."""
        return {entry["annotations"][NAME]: str(entry["digest"]) for entry in self._index()}[name]

    def size(self, name: str) -> int:
        """Return the bytes of an image's layers, as they are stored. Raises KeyError."""
        manifest = json.loads((self._blobs / hexadecimal(self.digest(name))).read_bytes())
        return sum(int(layer["size"]) for layer in manifest["layers"])

    def keep(self) -> None:
        """Have ``clear`` keep what is there now."""
        self._preserved = frozenset(os.listdir(self._blobs))

    def clear(self) -> None:
        """Remove everything that was not kept."""
        self._write_index([entry for entry in self._index() if hexadecimal(entry["digest"]) in self._preserved])
        for name in set(os.listdir(self._blobs)) - self._preserved:
            (self._blobs / name).unlink()

    @property
    def _blobs(self) -> Path:
        return self.path / "blobs/sha256"

    def _index(self) -> list[dict[str, Any]]:
        manifests: list[dict[str, Any]] = json.loads((self.path / "index.json").read_bytes())["manifests"]
        return manifests

    def _write_index(self, manifests: list[dict[str, Any]]) -> None:
        (self.path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": manifests}))

    def _written(self, document: bytes, media_type: str) -> dict[str, Any]:
        """Write a document, and return its descriptor."""
        digest = f"sha256:{hashlib.sha256(document).hexdigest()}"
        (self._blobs / hexadecimal(digest)).write_bytes(document)
        return self._described(digest, media_type)

    def _described(self, digest: str, media_type: str) -> dict[str, Any]:
        return {"mediaType": media_type, "digest": digest, "size": (self._blobs / hexadecimal(digest)).stat().st_size}
