"""Disks of guests: ext4 in sparse files, made without mounts and cached by content."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from kit.host.command import run
from kit.host.durable import publish
from kit.host.safe_fs import scratch

#: Number of disks of one name that are kept: the last used.
_KEPT = 3


def cached_disk(
    directory: Path, name: str, key: str, fill: Callable[[Path], Path], spare: int, tell: Callable[[str], None]
) -> Path:
    """Return the disk with that name and key. A missing one is made with the files of the directory that ``fill(scratch
    directory)`` gives, and ``spare`` bytes more. Its filesystem's label is ``kit-NAME``."""
    target = directory / f"{name}-{key}.img"
    if not target.exists():
        tell(f"making the guest's disk of {name} (once)")
        with scratch(directory) as workspace:
            new = workspace / "disk.img"
            make_disk(fill(workspace), new, f"kit-{name}", spare)
            publish(new, target)
    os.utime(target)
    for old in sorted(directory.glob(f"{name}-*.img"), key=lambda path: -path.stat().st_mtime)[_KEPT:]:
        old.unlink()
    return target


def make_disk(content: Path, target: Path, label: str, spare: int) -> None:
    """Make an ext4 with the files of a directory; owners and attributes are kept. It is sparse, so ``spare`` costs
    nothing."""
    # By their length: what they take where they lie is less on ZFS, which compresses, and next to nothing while they
    # are new. Here a file takes whole blocks, an inode and an entry.
    length, files = (int(run(["du", "-s", *words, content]).split()[0]) for words in (["-b"], ["--inodes"]))
    size = length * 11 // 10 + files * (4096 + 1024) + spare
    with target.open("wb") as file:
        file.truncate(size + (64 << 20))
    creation_options = "nodiscard,lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0"  # holes need no zeros written
    # In blocks of 1 KiB, mke2fs's choice for small disks, descriptors of groups lie where an Acorn disk says how it is
    # parted, under a checksum of one byte (block/partitions/acorn.c). A guest once found the label on a partition that
    # was none, on such a disk; that this was why is not proved.
    words = ["-q", "-F", "-t", "ext4", "-b", "4096", "-L", label, "-E", creation_options]
    run(["mke2fs", *words, "-d", content, target], what=f"making the guest's disk {label}")
