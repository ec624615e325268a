"""The guard before a device that the user named is overwritten."""

from __future__ import annotations

import json
from pathlib import Path

from kit.command import run
from kit.errors import UsageError


def guard_device(device: Path, wipe: Path | None) -> None:
    """Refuse a device that holds anything, unless ``wipe`` names that very device. A mounted one is never wiped."""
    if not device.is_block_device():
        raise UsageError(f"{device} is not a block device", "see lsblk for what there is")
    info = json.loads(run(["lsblk", "--json", "--paths", "--output", "NAME,MOUNTPOINTS,FSTYPE,TYPE", device]))
    disk = info["blockdevices"][0]
    nodes = [disk, *disk.get("children", [])]
    mounted = [point for node in nodes for point in (node.get("mountpoints") or []) if point]
    if mounted:
        raise UsageError(f"{device} is mounted at {', '.join(mounted)}", "unmount it, or name another device")
    holders = Path(f"/sys/class/block/{device.resolve().name}/holders")
    if holders.is_dir() and any(holders.iterdir()):
        raise UsageError(f"{device} is in use by {next(holders.iterdir()).name}", "stop what uses it")
    found = [f"partition {child['name']}" for child in disk.get("children", [])]
    found += [line.split()[-1] for line in run(["wipefs", "--noheadings", "--output", "TYPE", device]).splitlines() if line]
    if found and wipe != device:
        raise UsageError(
            f"{device} is not empty: it holds {', '.join(found)}", f"add --wipe {device} to destroy what is on it"
        )
    if found:
        run(["wipefs", "--all", "--quiet", device])
