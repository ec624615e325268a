"""Block devices: their numbers and identities, and the guard before a user's device is overwritten."""

from __future__ import annotations

import errno
import json
import mmap
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from kit.core.errors import RunError, UsageError
from kit.host.command import run
from kit.host.mounts import Mount
from kit.model.fact import DEVICE, Fact
from kit.model.session import Request, Session

#: Bytes that are read at each end, where partition tables, superblocks and their copies are.
_EDGE = 4 << 20
#: Number and size of the evenly spaced samples between; a device of up to 64 MiB is read completely.
_SAMPLES, _SAMPLE = 256, 64 << 10
_WHOLE = 64 << 20
_CHUNK = 1 << 20
_ALIGNED = 4096


def check_devices(request: Request, wipe: Collection[Path], continued: Session | None = None) -> list[Fact]:
    """Return the identities of the request's devices, after a check that each may be overwritten: it is empty, or the
    user gives it up in this start. An earlier permission does not count, since the name may by now belong to another
    device with other data. ``continued``: the session that continues on these devices. Changes nothing. Raises
    UsageError."""
    devices = _devices(request)
    for device in wipe:
        if device not in devices.values():
            raise UsageError(f"--wipe {device}: this session uses no such device", "name it as --device does")
    facts = []
    for what, device in devices.items():
        now = identity(device)
        then = DEVICE.text(continued.facts, "unknown", what) if continued else now
        if continued and then != now:
            raise UsageError(
                f"{device} is not the {what} that session {continued.id} began with: it is {now}, and was {then}",
                "attach that one under this name, or start a new session",
            )
        check_device(device, wipe)
        facts.append(DEVICE.fact(now, what))
    return facts


def _devices(request: Request) -> dict[str, Path]:
    devices = {"device": request.device, "thin device": request.thin_device}
    return {what: Path(text).absolute() for what, text in devices.items() if text}


def check_device(device: Path, wipe: Collection[Path]) -> bool:
    """Refuse a device with any content, unless ``wipe`` names it; always refuse a device in use.

    Returns whether there is something to wipe. Changes nothing. Raises UsageError."""
    disk = _described(device, "NAME,MOUNTPOINTS")
    parts = disk.get("children", [])
    mounted = [point for node in (disk, *parts) for point in (node.get("mountpoints") or []) if point]
    if mounted:
        raise UsageError(f"{device} is mounted at {', '.join(mounted)}", "unmount it, or name another device")
    holders = Path(f"/sys/class/block/{device.resolve().name}/holders")
    if holders.is_dir() and any(holders.iterdir()):
        raise UsageError(f"{device} is in use by {next(holders.iterdir()).name}", "stop what uses it")
    content = [f"partition {part['name']}" for part in parts] + _signatures(device)
    try:
        data = first_data(device)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise UsageError(f"{device} is in use", "see with lsblk and swapon what uses it") from None
        raise UsageError(f"{device} can't be read: {error.strerror}", "see dmesg") from None
    if data is not None and not content:
        content = [f"data, at byte {data}"]
    if content and device not in wipe:
        raise UsageError(
            f"{device} is not empty: it holds {', '.join(content)}", f"use --wipe {device} to destroy what is on it"
        )
    return bool(content)


def clear_device(device: Path, wipe: Collection[Path]) -> None:
    """Check the device, and remove the signatures that ``wipe`` permits to remove."""
    if check_device(device, wipe):
        run(["wipefs", "--all", "--quiet", device])


def identity(device: Path) -> str:
    """Return what distinguishes a device from a later one with the same name. This is its size with its serial number,
    world-wide name, the UUID of the partition or mapping, or the file behind it. Without these, it is the device
    number. The content is not part of it, since a session changes it. Raises UsageError."""
    properties = _described(device, "SIZE,SERIAL,WWN,PARTUUID", "--nodeps")
    identifiers = {"serial": properties["serial"], "WWN": properties["wwn"], "partition": properties["partuuid"]}
    number = device_number(device.resolve())
    for key, name in (("mapping", "dm/uuid"), ("array", "md/uuid"), ("file", "loop/backing_file")):
        file = Path(f"/sys/dev/block/{number}/{name}")
        identifiers[key] = file.read_text().strip() if file.is_file() else ""
    parts = [f"{key} {text.strip()}" for key, text in identifiers.items() if text and text.strip()]
    return ", ".join([f"{properties['size']} bytes", *(parts or [f"device {number}"])])


def _described(device: Path, columns: str, *options: str) -> dict[str, Any]:
    """Return what lsblk reports on the device. Raises UsageError."""
    if not device.is_block_device():
        raise UsageError(f"{device} is not a block device", "see lsblk for what there is")
    try:
        text = run(["lsblk", "--json", "--paths", "--bytes", *options, "--output", columns, device])
    except RunError:
        raise _unreadable(device) from None
    described: dict[str, Any] = json.loads(text)["blockdevices"][0]
    return described


def _signatures(device: Path) -> list[str]:
    try:
        return run(["wipefs", "--noheadings", "--output", "TYPE", device]).split()
    except RunError:
        raise _unreadable(device) from None


def _unreadable(device: Path) -> UsageError:
    return UsageError(f"{device} can't be read", "insert a medium; check with lsblk")


def first_data(path: Path) -> int | None:
    """Return the offset of the first non-zero byte; None if every byte read is zero.

    The first and the last 4 MiB are read, and samples of 16 MiB in total between them. Data between the samples is not
    detected. Reads bypass the page cache. Raises OSError; EBUSY for a device in use."""
    descriptor = _open(path)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        with mmap.mmap(-1, _CHUNK) as buffer:  # its address is aligned, as O_DIRECT demands
            for start, length in _regions(size):
                count = os.preadv(descriptor, [memoryview(buffer)[:length]], start)
                nonzero = buffer[:count].lstrip(b"\0")
                if nonzero:
                    return start + count - len(nonzero)
    finally:
        os.close(descriptor)
    return None


def _open(path: Path) -> int:
    # O_EXCL: nobody uses the block device, by a mount in any namespace, as swap or for a mapping (open(2)).
    claim = os.O_EXCL if stat.S_ISBLK(path.stat().st_mode) else 0
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECT | claim)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, os.O_RDONLY | claim)  # a filesystem without direct I/O


def _regions(size: int) -> Iterator[tuple[int, int]]:
    """Yield offset and length of each read, both aligned; the last may extend beyond the end."""
    if size <= _WHOLE:
        yield from _chunks(0, size)
        return
    tail = (size - _EDGE) // _ALIGNED * _ALIGNED
    yield from _chunks(0, _EDGE)
    step = (tail - _EDGE) // _SAMPLES
    for number in range(_SAMPLES):
        yield (_EDGE + number * step) // _ALIGNED * _ALIGNED, _SAMPLE
    yield from _chunks(tail, size)


def _chunks(start: int, end: int) -> Iterator[tuple[int, int]]:
    for offset in range(start, end, _CHUNK):
        yield offset, min(_CHUNK, -(-(end - offset) // _ALIGNED) * _ALIGNED)


def block_number(mount: Mount) -> str | None:
    """Return MAJOR:MINOR of the block device behind a mount; btrfs reports an anonymous device of its own."""
    if not mount.source.startswith("/dev/") or not Path(mount.source).is_block_device():
        return mount.device if Path(f"/sys/dev/block/{mount.device}").exists() else None
    return device_number(Path(mount.source))


def device_number(device: Path) -> str:
    """Return MAJOR:MINOR of a block device."""
    number = device.stat().st_rdev
    return f"{os.major(number)}:{os.minor(number)}"
