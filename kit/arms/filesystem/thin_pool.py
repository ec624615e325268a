"""A thin pool of the device mapper (Documentation/admin-guide/device-mapper/thin-provisioning.rst) on files of a
backing filesystem, or on the user's device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kit.arms.filesystem.backing import Backing
from kit.arms.filesystem.block import loop_device
from kit.core.errors import MachineError, RunError
from kit.host.command import require, run
from kit.host.recovery.cleanup import Cleanup
from kit.host.recovery.journal import Journal

#: Sectors of 512 bytes: blocks of 64 KiB, as in Docker's pools, and the threshold for the warning of a full pool.
_BLOCK, _LOW_WATER = 128, 32768
_DATA_BYTES, _META_BYTES = 100 << 30, 2 << 30
#: Maximum bytes of the metadata, whatever the device's size.
_META_SHARE = 50


@contextmanager
def thin_pool(backing: Backing, label: str, part: str, journal: Journal, device: Path | None = None) -> Iterator[str]:
    """Yield a new pool, named for /dev/mapper, on sparse files of a backing filesystem, or on ``device``, whose content
    is lost. ``label``: the session's; ``part`` distinguishes pools of one filesystem. Raises MachineError, RunError."""
    require("dmsetup")
    name = f"kit-{label}-{backing.name}-{part}"
    with ExitStack() as stack:
        if device is None:
            data = stack.enter_context(loop_device(backing.path / f"{part}.data", _DATA_BYTES, journal))
            meta = stack.enter_context(loop_device(backing.path / f"{part}.meta", _META_BYTES, journal))
        else:
            meta, data = _split(stack, device, name, journal)
        run(["dd", "if=/dev/zero", f"of={meta}", "bs=4096", "count=1", "conv=notrunc"])  # a new pool, says the document
        table = f"0 {_sectors(data)} thin-pool {meta} {data} {_BLOCK} {_LOW_WATER} 1 skip_block_zeroing"
        stack.enter_context(_mapped(name, table, journal))
        yield name


def _split(stack: ExitStack, device: Path, name: str, journal: Journal) -> tuple[Path, Path]:
    """Return metadata at the device's start, data behind it."""
    sectors = _sectors(device)
    share = max(sectors // _META_SHARE, 8192)
    meta = stack.enter_context(_mapped(f"{name}-meta", f"0 {share} linear {device} 0", journal))
    data = stack.enter_context(_mapped(f"{name}-data", f"0 {sectors - share} linear {device} {share}", journal))
    return meta, data


@contextmanager
def _mapped(name: str, table: str, journal: Journal) -> Iterator[Path]:
    with journal.holding("mapped device", name):
        run(["dmsetup", "create", name, "--noudevsync", "--table", table], what="dmsetup create")
        # Without udev nobody else makes the node.
        run(["dmsetup", "mknodes", name])
        yield Path("/dev/mapper") / name


def _remove_mapped(name: str) -> None:
    """Remove a mapped device and everything made of it, thin devices first."""
    names = _mapped_names()
    for mapped in [
        *(mapped_name for mapped_name in names if mapped_name.startswith(f"{name}-snap")),
        *(mapped_name for mapped_name in names if mapped_name == name),
    ]:
        run(["dmsetup", "remove", "--retry", "--noudevsync", mapped], what=f"dmsetup remove {mapped}")


def _is_mapped(name: str) -> bool:
    return name in _mapped_names()


def _mapped_names() -> list[str]:
    try:
        lines = run(["dmsetup", "ls"]).split("\n")
    except (RunError, MachineError):
        return []  # no device mapper, no device
    return [line.split("\t")[0].split(" ")[0] for line in lines]


def _sectors(device: Path) -> int:
    return int(run(["blockdev", "--getsz", device]))


MAPPED_DEVICE = Cleanup(_remove_mapped, _is_mapped)
