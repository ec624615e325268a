"""Every engine's name, and every driver: one record each, registered below by the engine that has it. A new driver is a
file, or a record in the file of its kin, and an entry here. Imports kit.model.driver alone."""

from __future__ import annotations

from collections.abc import Iterator

from kit.model.driver import Driver
from kit.model.drivers.aufs import AUFS
from kit.model.drivers.blockfile import BLOCKFILE
from kit.model.drivers.btrfs import BTRFS
from kit.model.drivers.copies import DOCKER_NATIVE, NATIVE, VFS
from kit.model.drivers.device_mapper import DEVICEMAPPER, DEVMAPPER
from kit.model.drivers.erofs import EROFS
from kit.model.drivers.fuse import CONTAINERD_FUSE_OVERLAYFS, FUSE_OVERLAYFS, MERGERFS, UNIONFS_FUSE
from kit.model.drivers.overlay import DOCKER_OVERLAYFS, OVERLAY, OVERLAY2, OVERLAYFS, UNION_OVERLAY
from kit.model.drivers.zfs import CONTAINERD_ZFS, ZFS

UNION = "union"
#: Those of each engine, in the order in which they are named and tried.
DRIVERS: dict[str, tuple[Driver, ...]] = {
    "docker": (
        OVERLAY2, BTRFS, VFS, FUSE_OVERLAYFS, AUFS, DEVICEMAPPER, ZFS,
        DOCKER_OVERLAYFS, DOCKER_NATIVE,
    ),
    "podman": (OVERLAY, VFS, BTRFS, FUSE_OVERLAYFS),
    "containerd": (OVERLAYFS, NATIVE, BTRFS, DEVMAPPER, CONTAINERD_ZFS, BLOCKFILE, EROFS, CONTAINERD_FUSE_OVERLAYFS),
    UNION: (UNION_OVERLAY, UNIONFS_FUSE, MERGERFS),
}  # fmt: skip
#: The engine of an arm that names none, and the Docker that is running: its drivers are Docker's, and how it is set up
#: is the user's.
DEFAULT_ENGINE, SYSTEM = "docker", "system"
ENGINES = (*(engine for engine in DRIVERS if engine != UNION), SYSTEM)
#: Those that may be meant where an arm names none.
SESSION_ENGINES = (DEFAULT_ENGINE, SYSTEM)
#: Those that can be had in other versions, in roots of their own.
VERSIONED = ("docker", "containerd")


def drivers(engine: str) -> tuple[Driver, ...]:
    """Those of ``docker``, ``docker@26.1``, ``union`` …; the Docker that is running has Docker's."""
    return DRIVERS.get(engine.partition("@")[0], DRIVERS[DEFAULT_ENGINE])


def graph_drivers() -> tuple[Driver, ...]:
    """Docker's that are its own, not snapshotters of containerd."""
    return tuple(driver for driver in drivers(DEFAULT_ENGINE) if not driver.image_store)


def find_driver(engine: str, name: str) -> Driver | None:
    return next((driver for driver in drivers(engine) if driver.name == name), None)


def registered() -> Iterator[tuple[str, Driver]]:
    """Each driver as an arm names it, ENGINE/DRIVER, with its record. Unions are not among them."""
    for engine, known in DRIVERS.items():
        if engine != UNION:
            yield from ((arm_words(engine, driver.name), driver) for driver in known)


def arm_words(engine: str, name: str) -> str:
    """ENGINE/DRIVER; without the engine where it is Docker, and without its version."""
    engine = engine.partition("@")[0]
    return name if engine in ("", DEFAULT_ENGINE) else f"{engine}/{name}"


def in_guest_kernel(recipe: str) -> tuple[str, ...]:
    """The drivers that are in no other kernel than this recipe's and the user's own."""
    return tuple(arm for arm, driver in registered() if driver.guest_kernel == recipe)


def handing_on(feature: str) -> tuple[str, ...]:
    """The drivers of engines that mount with this feature, with the version of the engine where not all do."""
    return tuple(
        f"{engine}{'@' if driver.features_root else ''}{driver.features_root}/{driver.name}"
        for engine, known in DRIVERS.items()
        for driver in known
        if engine != UNION and feature in driver.features.known
    )


def kernel_modules() -> tuple[str, ...]:
    """Those that any driver may need."""
    parts = (driver.kernel for known in DRIVERS.values() for driver in known)
    return tuple(dict.fromkeys(module for part in parts if part for module in part.modules))


def fuse_daemons() -> tuple[str, ...]:
    """Programs by which drivers mount through FUSE: what they work is work of the driver's."""
    found = (driver for known in DRIVERS.values() for driver in known)
    programs = (driver.packages for driver in found if driver.kernel and driver.kernel.listed == "fuse")
    return tuple(dict.fromkeys(name for packages in programs for name in packages))
