"""Clones of ZFS datasets."""

from dataclasses import replace

from kit.model.driver import OWN_KERNEL, Driver, KernelPart

ZFS = Driver(
    "zfs",
    "install zfs-dkms for this kernel; Debian has it in its component contrib, which apt's sources must name",
    KernelPart("zfs", "zfs", ("zfs",)),
    filesystem="zfs",
    guests=(OWN_KERNEL,),
)
CONTAINERD_ZFS = replace(ZFS, listed=False)
