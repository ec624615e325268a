"""The cache of images: each is made once, whoever else wants it."""

import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kit.image import Image, ImageCache


def write_root(rootfs: Path) -> dict[str, str]:
    with tarfile.open(rootfs, "w") as tar:
        tar.addfile(tarfile.TarInfo("file"))
    return {}


def wait(event: threading.Event) -> None:
    assert event.wait(60), "the other did not get so far"


def test_who_comes_second_waits_and_finds_the_image_made(tmp_path: Path) -> None:
    builds, begun, waits = [], threading.Event(), threading.Event()

    def build(rootfs: Path, archive: Path) -> dict[str, str]:
        builds.append(rootfs)
        begun.set()
        wait(waits)
        return write_root(rootfs)

    def second(text: str) -> None:
        assert text == "waiting for another that makes image one"
        waits.set()

    def make() -> Image:
        return ImageCache(tmp_path).make("key", "one", "test", build, tell=second)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(make)
        wait(begun)
        found = pool.submit(make).result(60)
        assert found == first.result(60)
    assert len(builds) == 1
    assert [image.name for image in ImageCache(tmp_path).list()] == ["one"]


def test_another_image_does_not_wait(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path)

    def build(rootfs: Path, archive: Path) -> dict[str, str]:
        other = cache.make("other", "other", "test", lambda rootfs, archive: write_root(rootfs), tell=pytest.fail)
        assert other.rootfs.exists()
        return write_root(rootfs)

    cache.make("key", "one", "test", build)
    assert {image.name for image in cache.list()} == {"one", "other"}


def test_who_waited_for_a_build_that_failed_makes_the_image_itself(tmp_path: Path) -> None:
    begun, waits = threading.Event(), threading.Event()

    def fail(rootfs: Path, archive: Path) -> dict[str, str]:
        begun.set()
        wait(waits)
        raise RuntimeError("no way to the mirror")

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ImageCache(tmp_path).make, "key", "one", "test", fail)
        wait(begun)
        image = ImageCache(tmp_path).make(
            "key", "one", "test", lambda rootfs, archive: write_root(rootfs), tell=lambda text: waits.set()
        )
        assert image.rootfs.exists()
        with pytest.raises(RuntimeError, match="no way to the mirror"):
            first.result(60)
