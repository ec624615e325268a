"""Guards a user's device before it is overwritten."""

from __future__ import annotations

import errno
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from kit.core.errors import RunError, UsageError
from kit.filesystem.backing import device_number
from kit.filesystem.content import first_data
from kit.host.command import run


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
    found = [f"partition {part['name']}" for part in parts] + _signatures(device)
    try:
        data = first_data(device)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise UsageError(f"{device} is in use", "see with lsblk and swapon what uses it") from None
        raise UsageError(f"{device} can't be read: {error.strerror}", "see dmesg") from None
    if data is not None and not found:
        found = [f"data, at byte {data}"]
    if found and device not in wipe:
        raise UsageError(
            f"{device} is not empty: it holds {', '.join(found)}", f"use --wipe {device} to destroy what is on it"
        )
    return bool(found)


def clear_device(device: Path, wipe: Collection[Path]) -> None:
    """Check the device, and remove the signatures that ``wipe`` permits to remove."""
    if check_device(device, wipe):
        run(["wipefs", "--all", "--quiet", device])


def identity(device: Path) -> str:
    """Return what distinguishes a device from a later one with the same name. This is its size with its serial number,
    world-wide name, the UUID of the partition or mapping, or the file behind it. Without these, it is the device
    number. The content is not part of it, since a session changes it. Raises UsageError."""
    shown = _described(device, "SIZE,SERIAL,WWN,PARTUUID", "--nodeps")
    found = {"serial": shown["serial"], "WWN": shown["wwn"], "partition": shown["partuuid"]}
    number = device_number(device.resolve())
    for key, name in (("mapping", "dm/uuid"), ("array", "md/uuid"), ("file", "loop/backing_file")):
        file = Path(f"/sys/dev/block/{number}/{name}")
        found[key] = file.read_text().strip() if file.is_file() else ""
    known = [f"{key} {text.strip()}" for key, text in found.items() if text and text.strip()]
    return ", ".join([f"{shown['size']} bytes", *(known or [f"device {number}"])])


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
