"""What scenarios and facts say of a disk: whether the filesystem allocates, and whether a loop device reaches one."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.arms.filesystem.backing import GIB, BackingOptions
from kit.arms.filesystem.block import loop_backing
from kit.host.namespace import enter_private_mounts
from kit.host.recovery.journal import Journal
from kit.session.setup.cleanups import CLEANUPS
from tests.needs import needs

pytestmark = [pytest.mark.machine, pytest.mark.unmeasured]
SCENARIOS = Path(__file__).parents[2] / "scenarios"


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A directory to mount on, unmounted at the end."""
    enter_private_mounts()
    directory = tmp_path / "disk"
    directory.mkdir()
    yield directory
    subprocess.run(["umount", directory], check=True)


def mount_image(kind: str, image: Path, mounted: Path, option: str = "defaults") -> None:
    with image.open("wb") as file:
        file.truncate(200 << 20)
    subprocess.run([f"mkfs.{kind}", "-q", image], check=True)
    subprocess.run(["mount", "-o", f"loop,{option}", image, mounted], check=True)


@needs("cc")
@pytest.mark.parametrize(("kind", "allocates"), [("ext3", 0), ("ext4", 1)])
def test_allocate_says_whether_the_filesystem_allocates(
    kind: str, allocates: int, mounted: Path, tmp_path: Path
) -> None:
    mount_image(kind, tmp_path / "image", mounted)
    program = tmp_path / "allocate"
    subprocess.run(["cc", "-O2", "-o", program, SCENARIOS / "allocate/allocate.c"], check=True)
    words = [str(program), "fallocate", str(mounted / "file"), str(8 << 20)]
    output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert f"kit: fallocate by the filesystem = {allocates}\n" in output
    assert ("the C library has written into each block" in output) == (not allocates)


@needs("fincore")
@pytest.mark.parametrize(("option", "cached"), [("data=ordered", False), ("data=journal", True)])
def test_fio_names_a_filesystem_that_accepts_direct_writes_and_caches_them(
    option: str, cached: bool, mounted: Path, tmp_path: Path
) -> None:
    mount_image("ext4", tmp_path / "image", mounted, option)
    (tmp_path / "fio").write_text("#!/bin/sh\necho DIRECT=$DIRECT\n")
    (tmp_path / "fio").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = ["sh", str(SCENARIOS / "fio/run.sh"), "job"]
    output = subprocess.run(words, cwd=mounted, env=environment, check=True, capture_output=True, text=True).stdout
    assert "kit: O_DIRECT accepted = 1\nDIRECT=1\n" in output
    assert ("goes through the page cache" in output) == cached


def test_a_loop_device_in_memory_is_no_disk(mounted: Path, tmp_path: Path) -> None:
    """Newer kernels grant direct I/O there."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2G", "kit-test", mounted], check=True)
    images = mounted / "images"
    try:
        options = BackingOptions(images=images, size=GIB)
        with loop_backing(options, Journal(tmp_path / "journal" / "run.jsonl", CLEANUPS), "test") as (_, kind):
            assert kind == "loop, in memory (its images are on tmpfs: no disk is measured)"
    finally:
        shutil.rmtree(images)
