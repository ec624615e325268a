"""The cache of images: each is made once, whoever else wants it."""

import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kit.host.command import run
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
        assert text == "waiting for another process that makes image one"
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


def test_the_same_files_have_one_digest_wherever_they_were_unpacked(tmp_path: Path) -> None:
    """Neither when they were read nor when they came there is part of an image: copies are compared by digest."""
    with tarfile.open(tmp_path / "root.tar", "w") as tar:  # as some are: without its own top
        for name in ("bin", "bin/sh"):
            member = tarfile.TarInfo(name)
            member.mtime, member.mode = 1_600_000_000, 0o755
            member.type = tarfile.REGTYPE if "/" in name else tarfile.DIRTYPE
            tar.addfile(member)
    found = []
    for copy in ("a", "b"):
        time.sleep(0.02)  # a later tick of the clock that inodes have
        image = ImageCache(tmp_path / f"cache-{copy}").from_tarball(tmp_path / "root.tar")
        with tarfile.open(image.rootfs) as tar:
            assert tar.getmember(".").mode == 0o755
        root = tmp_path / copy
        root.mkdir()
        run(["tar", "-xpf", image.rootfs, "-C", root])
        again = ImageCache(tmp_path / f"cache-{copy}").from_directory(root)
        found.append((image.digest, again.digest))
        (root / "bin/sh").chmod(0o711)
        (root / "bin/sh").chmod(0o755)
        assert ImageCache(tmp_path / f"cache-{copy}").from_directory(root).digest == again.digest
        (root / "bin/sh").chmod(0o700)
        assert ImageCache(tmp_path / f"cache-{copy}").from_directory(root).digest != again.digest
    assert found[0] == found[1]
