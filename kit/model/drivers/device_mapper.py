"""Thin devices of the device mapper, a filesystem in each."""

import re

from kit.model.driver import QEMU, UML, Driver, KernelPart, Options

_OPTIONS = "CONFIG_BLK_DEV_DM, CONFIG_DM_THIN_PROVISIONING"
_KERNEL = KernelPart(
    f"device-mapper ({_OPTIONS})", "device-mapper", ("dm-mod", "dm-thin-pool", "dm-snapshot"), where="misc"
)
#: The option for a pool that the kit makes (direct-lvm). Otherwise dockerd makes a pool on its own loop files.
THIN_POOL = "thinpool"

DEVICEMAPPER = Driver(
    "devicemapper",
    "use a kernel with device-mapper (--guest has one) and a Docker {versions} (docker@{root}/devicemapper)",
    _KERNEL,
    before="25",
    root="20.10",
    options=Options({THIN_POOL: re.compile("")}, f"+{THIN_POOL} (direct-lvm: a pool without loop files of dockerd's)"),
    storage_options=("dm.override_udev_sync_check=true",),
    own_filesystem=True,
    guests=(UML, QEMU),
)
DEVMAPPER = Driver(
    "devmapper",
    f"use a kernel with device-mapper ({_OPTIONS}): --guest has one",
    _KERNEL,
    own_filesystem=True,
    guests=(UML, QEMU),
)
