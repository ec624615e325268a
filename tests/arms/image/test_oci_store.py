"""An OCI layout that builds read and write: what the kit writes there is what its reader of images finds."""

import json
import tarfile
from pathlib import Path

import pytest

from kit.arms.image import Image, ImageCache
from kit.arms.image.image_file import from_image_file
from kit.arms.image.oci_store import OciStore
from tests.image_archives import layer, save

LOW, HIGH = layer(("a", "file", "1"), ("b", "file", "1")), layer((".wh.a", "file", ""), ("c", "file", "2"))


@pytest.fixture
def cache(tmp_path: Path) -> ImageCache:
    return ImageCache(tmp_path / "cache")


def stored(image: Image, path: Path) -> tuple[OciStore, Image]:
    """The store with the image, and the image that is read from there."""
    store = OciStore(path)
    store.add(image)
    return store, from_image_file(path, image.tag, ImageCache(path.parent / "second"))


def test_an_image_with_layers_keeps_them(tmp_path: Path, cache: ImageCache) -> None:
    image = from_image_file(save(tmp_path / "saved.tar", LOW, HIGH), "", cache)
    store, read = stored(image, tmp_path / "store")
    assert (read.digest, read.layers, read.env) == (image.digest, image.layers, image.env)
    assert store.size(image.tag) == len(LOW) + len(HIGH)


def test_a_root_filesystem_is_one_layer(tmp_path: Path, cache: ImageCache) -> None:
    (tmp_path / "root.tar").write_bytes(LOW)
    image = cache.from_tarball(tmp_path / "root.tar")
    store, read = stored(image, tmp_path / "store")
    with tarfile.open(read.rootfs) as tar:
        assert tar.getnames() == ["./a", "./b"]
    assert store.size(image.tag) == image.size


def test_what_a_build_has_added_is_cleared_and_the_rest_kept(tmp_path: Path, cache: ImageCache) -> None:
    store, _ = stored(from_image_file(save(tmp_path / "saved.tar", LOW), "", cache), tmp_path / "store")
    store.keep()
    kept = {path: path.read_bytes() for path in store.path.rglob("*") if path.is_file()}
    (store.path / "blobs/sha256" / ("f" * 64)).write_text("{}")
    index = json.loads((store.path / "index.json").read_text())
    added = {"digest": f"sha256:{'f' * 64}", "size": 2, "annotations": {"io.containerd.image.name": "localhost/step:1"}}
    (store.path / "index.json").write_text(json.dumps({**index, "manifests": [*index["manifests"], added]}))
    assert store.digest("localhost/step:1") == added["digest"]
    store.clear()
    assert {path: path.read_bytes() for path in store.path.rglob("*") if path.is_file()} == kept
