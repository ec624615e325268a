"""Snapshots of btrfs subvolumes."""

from kit.model.driver import Driver, KernelPart

BTRFS = Driver(
    "btrfs",
    "put it on btrfs: layer:{arm}@btrfs",
    KernelPart("btrfs", "btrfs", ("btrfs",)),
    filesystem="btrfs",
    cold_root="btrfs shares no page cache between a snapshot and its original",
)
