"""Loop devices (loop(4)) that the kernel frees when their last user ends, even by a kill."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kit.core.errors import MachineError, RunError
from kit.host.container import DEVICES, RIGHTS, granting
from kit.host.kernel_part import LOOP, require_part
from kit.host.recovery.journal import Journal

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
