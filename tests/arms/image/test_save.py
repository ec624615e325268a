"""Images of the cache as archives with a name: what docker load needs is in them, and the image is the same."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kit.arms.image import Image, ImageCache
from kit.arms.image.image_file import from_image_file
from kit.arms.image.save import reference, save_image
from kit.core.errors import UsageError
from tests.command_line import Kit
from tests.image_archives import layer, save


def rootfs(tmp_path: Path) -> Image:
    (tmp_path / "root.tar").write_bytes(layer((".", "dir", ""), ("./etc", "dir", ""), ("./etc/a", "file", "1")))
    return ImageCache(tmp_path / "cache").from_tarball(tmp_path / "root.tar")


def documents(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return manifest and configuration of the only image."""
    with tarfile.open(file) as tar:

        def read(name: str) -> Any:
            member = tar.extractfile(name)
            assert member
            return json.load(member)

        (manifest,) = read("manifest.json")
        return manifest, read(manifest["Config"])


def test_a_root_filesystem_becomes_an_image_of_one_layer(tmp_path: Path) -> None:
    image = rootfs(tmp_path)
    save_image(image, tmp_path / "out.tar", "mine:1")
    manifest, config = documents(tmp_path / "out.tar")
    assert manifest["RepoTags"] == ["mine:1"] and config["rootfs"]["diff_ids"] == [f"sha256:{image.digest}"]
    again = from_image_file(tmp_path / "out.tar", "mine:1", ImageCache(tmp_path / "other"))
    with tarfile.open(again.rootfs) as tar:
        assert tar.getnames() == ["./etc", "./etc/a"]


def test_layers_stay_apart(tmp_path: Path) -> None:
    low, high = layer(("etc", "dir", ""), ("etc/a", "file", "1")), layer(("etc/a", "file", "2"))
    image = from_image_file(save(tmp_path / "in.tar", low, high), "", ImageCache(tmp_path / "cache"))
    save_image(image, tmp_path / "out.tar", "registry.example.org:5000/mine:1")
    again = from_image_file(tmp_path / "out.tar", "", ImageCache(tmp_path / "other"))
    assert (again.digest, again.layers, again.env) == (image.digest, image.layers, image.env)


def test_a_file_that_cannot_be_written_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    image = rootfs(tmp_path)
    with pytest.raises(UsageError, match=r"no/out\.tar: No such file or directory"):
        save_image(image, tmp_path / "no/out.tar", "mine:1")
    (tmp_path / "out.tar").mkdir()
    with pytest.raises(UsageError, match=r"out\.tar: Is a directory"):
        save_image(image, tmp_path / "out.tar", "mine:1")
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "root.tar", "out.tar"}


@pytest.mark.parametrize(
    ("name", "tagged"),
    [
        ("kit", "kit:latest"),
        ("mine:1", "mine:1"),
        ("registry.example.org:5000/a/kit", "registry.example.org:5000/a/kit:latest"),
        ("registry.example.org/kit:0.7", "registry.example.org/kit:0.7"),
    ],
)
def test_a_name_without_a_tag_has_the_usual_one(name: str, tagged: str) -> None:
    assert reference(name) == tagged


@pytest.mark.parametrize("name", ["Mine", "a b:1", "", "mine:", "-x:1", "mine:.1"])
def test_a_name_that_docker_does_not_take_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a name that Docker takes"):
        reference(name)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("smoke", "nosuch/smoke.tar"), "nosuch/smoke.tar can't be written"),
        (("./rootfs.tar", "out.tar"), "'./rootfs.tar' is not a name that Docker takes"),
        (("smoke", "out.tar", "--tag", "Mine"), "'Mine' is not a name that Docker takes"),
    ],
)
def test_what_cannot_be_saved_is_refused_before_it_is_built(words: tuple[str, ...], says: str, kit: Kit) -> None:
    done = kit("image", "save", *words)
    assert done.returncode == 2 and says in done.stderr and "building" not in done.stderr
