"""The cache of images: each is made once, whoever else wants it."""

import gzip
import os
import tarfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kit.arms.image import Image, ImageCache
from kit.core.errors import UsageError
from kit.host.command import run
from tests.image_archives import holes, long_header, tarball


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


def a_sparse_file(top: Path) -> Path:
    return holes(top / "root.tar")


def a_long_header(top: Path) -> Path:
    return long_header(top / "root.tar.gz")


def much_of_little(top: Path) -> Path:
    with gzip.open(top / "root.tar.gz", "wb") as file:
        file.write(tarball({"y": b""}) + bytes(5 << 20))
    return top / "root.tar.gz"


def many_devices(top: Path) -> Path:
    with tarfile.open(top / "root.tar", "w") as tar:
        for number in range(1001):
            member = tarfile.TarInfo(f"dev/{number}")
            member.type = tarfile.CHRTYPE
            tar.addfile(member)
    return top / "root.tar"


@pytest.mark.promise(
    "what others wrote", "Sources, root filesystems and images beyond the bounds are refused, and take no space."
)
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (a_sparse_file, "more than 1 GiB of holes"),
        (a_long_header, "a header has 2097152 bytes"),
        (much_of_little, "it decompresses to more than"),
        (many_devices, "more than 1000 device nodes"),
    ],
)
def test_a_root_filesystem_beyond_the_bounds_takes_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Path], reason: str
) -> None:
    monkeypatch.setattr("kit.arms.image.decompress._LEAST", 4 << 20)
    path = make(tmp_path)
    with pytest.raises(UsageError, match=reason) as caught:
        ImageCache(tmp_path / "cache").from_tarball(path)
    assert caught.value.message.startswith(f"{path}: ") and "\n" not in caught.value.message
    assert not list((tmp_path / "cache/images").iterdir())


def test_a_tarball_of_equal_size_and_time_is_another_image(tmp_path: Path) -> None:
    path = tmp_path / "root.tar"
    found = []
    for data in (b"one", b"two"):
        path.write_bytes(tarball({"usr": data}))
        os.utime(path, (1, 1))
        found.append(ImageCache(tmp_path / "cache").from_tarball(path).digest)
    assert found[0] != found[1]


@pytest.mark.promise(
    "what others wrote", "Sources, root filesystems and images beyond the bounds are refused, and take no space."
)
def test_a_directory_of_holes_takes_no_space(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    with (root / "holes").open("wb") as file:
        file.truncate(4 << 30)
    with pytest.raises(UsageError, match="root: 4 GiB of files take 0 MiB, and their holes would become zeros"):
        ImageCache(tmp_path / "cache").from_directory(root)
    assert not list((tmp_path / "cache/images").iterdir())
    (root / "proc").mkdir()
    (root / "holes").rename(root / "proc/holes")  # which is not packed
    assert ImageCache(tmp_path / "cache").from_directory(root).size < 1 << 20
