"""Filesystems on a block device: a sparse loop image, or the user's device.

The kernel frees a loop device (loop(4)) when its last user ends, even by a kill."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kit.arms.filesystem.backing import GIB, Backing, BackingOptions
from kit.arms.filesystem.device import block_number, clear_device
from kit.arms.filesystem.mounted import unconfirmed
from kit.arms.filesystem.profile import Profile
from kit.core.errors import MachineError, RunError
from kit.core.private import make_directory
from kit.host.command import require, run
from kit.host.container import DEVICES, RIGHTS, granting
from kit.host.kernel_part import LOOP, filesystem_part, require_part
from kit.host.mounts import mount_of
from kit.host.recovery.journal import Journal

#: mkfs options of each filesystem: force, and do not discard a sparse file.
_MKFS = {
    "ext4": ("-q", "-F", "-E", "nodiscard"),
    "ext3": ("-q", "-F", "-E", "nodiscard"),
    "ext2": ("-q", "-F", "-E", "nodiscard"),
    "xfs": ("-q", "-f", "-K"),
    "btrfs": ("-q", "-f", "-K"),
    "jfs": ("-q",),
    "reiserfs": ("-q", "-f", "-f"),
}
#: The kernel would otherwise zero inode tables in the background, during the measurement.
_MOUNT = {"ext4": ("noinit_itable",), "ext3": ("noinit_itable",)}


@contextmanager
def block_backing(
    profile: Profile, options: BackingOptions, where: Path, label: str, journal: Journal
) -> Iterator[Backing]:
    """Make and mount a filesystem on a loop image, or on ``options.device``. Raises MachineError, RunError."""
    name, kind_of = profile.name, profile.type
    require_part(filesystem_part(kind_of))
    require(f"mkfs.{kind_of}")
    with contextlib.ExitStack() as stack:
        if options.device is not None:
            clear_device(options.device, options.wipe)
            device, kind = options.device, "device"
        else:
            device, kind = stack.enter_context(loop_backing(options, journal, f"{label}-{name}"))
        run([f"mkfs.{kind_of}", *_MKFS[kind_of], *options.mkfs_words(profile), device], what=f"mkfs.{kind_of}")
        where.mkdir(parents=True, exist_ok=True)
        requested = options.mount_options(profile)
        mount_options = ",".join((*_MOUNT.get(kind_of, ()), *requested))
        try:
            run(
                ["mount", "-t", kind_of, *(["-o", mount_options] if mount_options else []), device, where],
                what=f"mount {name}",
            )
        except RunError as error:
            if not requested:
                raise
            raise MachineError(
                f"this kernel does not mount {kind_of} with {','.join(requested)}: {error.message}",
                "see dmesg, or use a profile without it: kit help arms",
            ) from None
        stack.callback(unmount, where)
        mount = mount_of(where)
        silent = unconfirmed(name, (*requested, *profile.expect), mount)
        yield Backing(name, where, kind, mount.type, mount.options, block_number(mount), silent)


@contextmanager
def loop_backing(options: BackingOptions, journal: Journal, label: str) -> Iterator[tuple[Path, str]]:
    """Yield a loop device over an unlinked sparse file: the kernel frees both when the last user ends."""
    make_directory(options.images)
    free = os.statvfs(options.images)
    available = free.f_bavail * free.f_frsize
    if available < options.size:
        raise MachineError(
            f"{options.images} has {available / GIB:.1f} GiB free, a backing filesystem needs {options.size / GIB:.1f}",
            "give a smaller --size, or KIT_HOME on a larger disk",
        )
    with loop_device(options.images / f"{label}.img", options.size, journal) as loop:
        yield loop, _kind(options.images, loop)


def _kind(images: Path, loop: Path) -> str:
    """Return what a loop device is. Direct I/O of a file in memory is granted, and reaches no disk."""
    kind = mount_of(images).type
    if kind in ("tmpfs", "ramfs"):
        return f"loop, in memory (its images are on {kind}: no disk is measured)"
    direct = Path(f"/sys/block/{loop.name}/loop/dio").read_text().strip() == "1"
    return "loop, direct I/O" if direct else "loop, buffered (its disk allows no direct I/O)"


def block_file(path: Path, size: int) -> Path:
    """Make a sparse file with an ext4."""
    with path.open("wb") as file:
        file.truncate(size)
    run(["mkfs.ext4", *_MKFS["ext4"], path], what="mkfs.ext4")
    return path


def unmount(where: Path) -> None:
    """Unmount; wait a little for processes that are just ending. Never lazily: that would hide a busy mount."""
    deadline = time.monotonic() + 10
    while True:
        try:
            run(["umount", where], what=f"umount {where}")
            return
        except RunError as error:
            if "busy" not in error.message or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


# Linux's <linux/loop.h>
_SET_FD, _SET_STATUS64, _SET_DIRECT_IO, _CONFIGURE = 0x4C00, 0x4C04, 0x4C08, 0x4C0A
_CTL_GET_FREE = 0x4C82
_AUTOCLEAR = 4
#: struct loop_info64: offsets and numbers, flags, names and a key.
_INFO = struct.pack("40x 12x I 160x 16x", _AUTOCLEAR)
#: Number of attempts: another process may take the free device first.
_TRIES = 100
#: Seconds for the kernel to free a device that nobody uses.
_PATIENCE = 5.0


@contextmanager
def loop_device(image: Path, size: int, journal: Journal) -> Iterator[Path]:
    """Yield a loop device over an unlinked sparse file, with direct I/O if the disk permits it. It is freed after the
    block, when nothing of it is mounted. Raises MachineError, RunError."""
    with journal.file(image):
        os.truncate(image, size)
        file = os.open(image, os.O_RDWR | os.O_CLOEXEC)
        try:
            loop, device = _attach(file)
        finally:
            os.close(file)
    try:
        with suppress(OSError):
            fcntl.ioctl(device, _SET_DIRECT_IO, 1)
        yield loop
    finally:
        os.close(device)
        _wait_freed(loop, image)


def _attach(file: int) -> tuple[Path, int]:
    """Return the device, and a descriptor of it: the kernel frees the device when all descriptors are closed."""
    require_part(LOOP)
    try:
        control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        fix = granting(f"{RIGHTS} {DEVICES}", "mount devtmpfs on /dev")
        raise MachineError(f"no loop device: /dev/loop-control: {error.strerror}", fix) from None
    try:
        for _ in range(_TRIES):
            loop = Path(f"/dev/loop{fcntl.ioctl(control, _CTL_GET_FREE)}")
            device = _open(loop)
            try:
                _configure(device, file)
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:
                    raise MachineError(f"no loop device: {loop}: {error.strerror}", "see dmesg for why") from None
            else:
                return loop, device
    finally:
        os.close(control)
    raise MachineError("no loop device: others take each that is free", "run losetup to see who has them")


def _open(loop: Path) -> int:
    """The kernel makes a device's node in devtmpfs alone: a container has a /dev of its own."""
    try:
        return os.open(loop, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        fix = granting(f"{RIGHTS} {DEVICES}", "mount devtmpfs on /dev")
        raise MachineError(f"no loop device: {loop}: {error.strerror}", fix) from None


def _configure(device: int, file: int) -> None:
    """Set file and flag by one call; Linux before 5.8 needs two."""
    try:
        fcntl.ioctl(device, _CONFIGURE, struct.pack("II", file, 0) + _INFO + bytes(64))
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTTY):
            raise
        fcntl.ioctl(device, _SET_FD, file)
        fcntl.ioctl(device, _SET_STATUS64, _INFO)


def _wait_freed(loop: Path, image: Path) -> None:
    backing_file = Path(f"/sys/block/{loop.name}/loop/backing_file")
    deadline = time.monotonic() + _PATIENCE
    while _attached(backing_file, image):
        if time.monotonic() > deadline:
            raise RunError(f"{loop} stays attached", f"run losetup --detach {loop}")
        time.sleep(0.02)


def _attached(backing_file: Path, image: Path) -> bool:
    try:
        return backing_file.read_text().startswith(str(image))
    except OSError:
        return False
