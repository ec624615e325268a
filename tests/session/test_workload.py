"""What is put into an arm's tree before its first timed step."""

import subprocess
from pathlib import Path

import pytest

from kit.arms.filesystem.block import unmount
from kit.host.command import run
from kit.session.measure.workload import copy_of_data


@pytest.mark.machine
@pytest.mark.parametrize("filesystem", ["xfs", "btrfs"])
def test_a_copy_shares_no_blocks_with_its_source(tmp_path: Path, filesystem: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with (tmp_path / "image").open("wb") as image:
        image.truncate(512 << 20)
    run([f"mkfs.{filesystem}", "-q", tmp_path / "image"])
    run(["mount", "-o", "loop", tmp_path / "image", disk])
    try:
        (disk / "source").mkdir()
        (disk / "source/file").write_bytes(b"x" * (8 << 20))
        run(["sync", "-f", disk])
        subprocess.run(copy_of_data(f"{disk}/source", f"{disk}/copy"), check=True)
        run(["sync", "-f", disk])
        extents = run(["filefrag", "-v", disk / "copy/file"])
    finally:
        unmount(disk)
    assert "last" in extents and "shared" not in extents
