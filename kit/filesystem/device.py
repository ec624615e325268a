"""The guard before a device that the user named is overwritten."""

from __future__ import annotations

import json
from pathlib import Path

from kit.command import run
from kit.errors import RunError, UsageError


def check_device(device: Path, wipe: Path | None) -> bool:
    """Refuse a device that holds anything, unless ``wipe`` names that very device; a mounted one always.

    Returns whether there is something to wipe. Changes nothing. Raises UsageError.
    """
    if not device.is_block_device():
        raise UsageError(f"{device} is not a block device", "see lsblk for what there is")
    try:
        info = json.loads(run(["lsblk", "--json", "--paths", "--output", "NAME,MOUNTPOINTS,FSTYPE,TYPE", device]))
        signatures = run(["wipefs", "--noheadings", "--output", "TYPE", device]).split()
    except RunError:
        raise UsageError(f"{device} can't be read", "is there a medium in it? see lsblk") from None
    disk = info["blockdevices"][0]
    parts = disk.get("children", [])
    mounted = [point for node in (disk, *parts) for point in (node.get("mountpoints") or []) if point]
    if mounted:
        raise UsageError(f"{device} is mounted at {', '.join(mounted)}", "unmount it, or name another device")
    holders = Path(f"/sys/class/block/{device.resolve().name}/holders")
    if holders.is_dir() and any(holders.iterdir()):
        raise UsageError(f"{device} is in use by {next(holders.iterdir()).name}", "stop what uses it")
    found = [f"partition {part['name']}" for part in parts] + signatures
    if found and wipe != device:
        raise UsageError(
            f"{device} is not empty: it holds {', '.join(found)}", f"--wipe {device} destroys what is on it"
        )
    return bool(found)


def clear_device(device: Path, wipe: Path | None) -> None:
    """Check it, and remove the signatures that ``wipe`` permits to remove."""
    if check_device(device, wipe):
        run(["wipefs", "--all", "--quiet", device])
